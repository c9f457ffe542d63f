// SPDX-License-Identifier: Apache-2.0
// strips_test.cpp: products of f32 in strips of registers: every size around a strip and a block, what comes after the product, and
// numbers that are none.
//
// Invariant: the reference sums in double; a result may be off by its own rounding and by depth units of Σ|a·b| in f32.
#include "products.hpp"
#include "strategies.hpp"

#include <cstring>
#include <thread>

using namespace cpu_test;

namespace {

constexpr uint32_t f32 = TN_DTYPE_f32;
constexpr Engine engine{f32, "matmul:strips", 0x1p-20};

// Products that go to the strips, whatever their size.
struct Strips : Bench {
  explicit Strips(const char* threads = "2") : Bench((prepare(threads), Bench())) {}
  ~Strips() { options().clear(); }
  static void prepare(const char* threads) {
    options()["prefer"] = "strips";
    options()["threads"] = threads;
  }
};

void check(Bench& bench, const Product& p, Random& random) { check(bench, engine, p, random); }
void check_after(Bench& bench, const Product& p, const After& after, Random& random) {
  check_after(bench, engine, p, after, random);
}

Tensor random_tensor(const Dims& dims, Random& random) {
  Tensor out(f32, dims);
  randomize(out, random, false);
  return out;
}

Tensor matrix_of(const Tensor& whole, int64_t index) {
  Tensor out(whole.dtype, {whole.dims[1], whole.dims[2]});
  for_each(out.dims, [&](const Dims& at) { out.set(at, whole.at({index, at[0], at[1]})); });
  return out;
}

}  // namespace

TEST_CASE("strips: every size around a strip, turned or not") {
  if (const std::string why = why_no_strips(); !why.empty()) TENON_SKIP("strips", why);
  Strips bench;
  Random random(tenon::test::seed());
  const std::vector<int64_t> rows = {1, 2, 13, 14, 15, 27, 28, 29, 43},
                             columns = {1, 2, 15, 16, 17, 31, 32, 33, 64, 65},
                             depths = {1, 2, 3, 4, 5, 15, 16, 17, 31, 33, 63, 65};
  const auto each =
      tenon::test::full_numbers_or<size_t>("depths for each pair of sizes", 4, depths.size() * 4);
  size_t depth = 0;
  for (const int64_t m : rows) {
    for (const int64_t n : columns) {
      for (size_t i = 0; i < each; ++i, ++depth)
        check(bench, {m, depths[depth * 5 % depths.size()], n, depth % 4 > 1, depth % 2 > 0}, random);
    }
  }
}

TEST_CASE("strips: more rows, columns and depth than a block, none of them whole") {
  if (const std::string why = why_no_strips(); !why.empty()) TENON_SKIP("strips", why);
  Random random(tenon::test::seed());
  for (const Product& p :
       {Product{301, 1'109, 171}, Product{223, 444, 97, true, true}, Product{70, 1'030, 301, true, false},
        Product{201, 1'109, 71},     // rows that few columns meet
        Product{205, 1'024, 33}}) {  // such rows, whole pages apart
    const Tensor a = random_tensor(dims_a(p), random), b = random_tensor(dims_b(p), random);
    const Sums sums = sums_of(p, a, b);
    for (const char* threads : {"1", "3"}) {
      Strips bench(threads);
      Tensor c(f32, {p.m, p.n});
      bench.run(compile_product(bench, f32, p), {&a, &b}, {&c});
      CHECK_MESSAGE(wrong(p, sums, c) == 0, words(p));
    }
  }
}

TEST_CASE("strips: a deep product of few elements is summed in parts, and gives the same bits every time") {
  if (const std::string why = why_no_strips(); !why.empty()) TENON_SKIP("strips", why);
  Strips bench("4");
  Random random(tenon::test::seed());
  for (const Product& p :
       {Product{37, 5'003, 45}, Product{60, 4'100, 64, true, false}, Product{5, 2'100, 7, false, true},
        Product{120, 2'300, 33, true, false}, Product{50, 2'050, 20, false, true}}) {
    const Tensor a = random_tensor(dims_a(p), random), b = random_tensor(dims_b(p), random);
    const Kernel kernel = compile_product(bench, f32, p);
    Tensor first(f32, {p.m, p.n});
    bench.run(kernel, {&a, &b}, {&first});
    CHECK(wrong(p, sums_of(p, a, b), first) == 0);
    for (int i = 0; i < 10; ++i) {
      Tensor again(f32, {p.m, p.n});
      bench.run(kernel, {&a, &b}, {&again});
      CHECK(again.bytes == first.bytes);
    }
  }
}

TEST_CASE("strips: infinities and NaN reach their row and column, and nothing beyond") {
  if (const std::string why = why_no_strips(); !why.empty()) TENON_SKIP("strips", why);
  Strips bench;
  Random random(tenon::test::seed());
  const Number inf = std::numeric_limits<Number>::infinity(), nan = std::numeric_limits<Number>::quiet_NaN();
  for (const Product& p : {Product{19, 33, 21}, Product{40, 1, 33}, Product{33, 47, 18, true, true}}) {
    Tensor a = random_tensor(dims_a(p), random), b = random_tensor(dims_b(p), random), c(f32, {p.m, p.n});
    a.set(p.turn_a ? Dims{p.k - 1, 3} : Dims{3, p.k - 1}, inf);
    a.set(p.turn_a ? Dims{0, 5} : Dims{5, 0}, nan);
    b.set(p.turn_b ? Dims{7, p.k - 1} : Dims{p.k - 1, 7}, -inf);
    bench.run(compile_product(bench, f32, p), {&a, &b}, {&c});
    CHECK(wrong(p, sums_of(p, a, b), c) == 0);
    CHECK(std::isnan(c.at({5, 2})));
    CHECK(std::isfinite(c.at({4, 2})));
    CHECK(std::isinf(c.at({p.m - 1, 7})));
    CHECK(std::isinf(c.at({3, p.n - 1})));
  }
}

TEST_CASE("strips: bias, residual and activation come with the product, once on the whole sum") {
  if (const std::string why = why_no_strips(); !why.empty()) TENON_SKIP("strips", why);
  Strips bench("4");
  Random random(tenon::test::seed());
  for (const auto& [op, tanh_form] : std::vector<std::pair<uint32_t, bool>>{{TN_OP_identity, false},
                                                                            {TN_OP_relu, false},
                                                                            {TN_OP_gelu, false},
                                                                            {TN_OP_gelu, true},
                                                                            {TN_OP_sigmoid, false},
                                                                            {TN_OP_tanh, false},
                                                                            {TN_OP_silu, false}}) {
    for (const bool bias : {false, true}) {
      for (const bool residual : {false, true})
        check_after(bench, {35, 7, 50}, {bias, residual, op, tanh_form}, random);
    }
    check_after(bench, {33, 1'200, 31}, {true, true, op, tanh_form}, random);
  }
  check_after(bench, {17, 3'000, 40}, {true, true, TN_OP_relu, false}, random);
  check_after(bench, {130, 1'100, 150}, {true, true, TN_OP_gelu, false}, random);
}

TEST_CASE("strips: a constant operand is packed at compile, with the same bits and less workspace") {
  if (const std::string why = why_no_strips(); !why.empty()) TENON_SKIP("strips", why);
  Strips bench;
  Random random(tenon::test::seed());
  const Product p{70, 90, 50};
  const Tensor a = random_tensor(dims_a(p), random), b = random_tensor(dims_b(p), random);
  Tensor c(f32, {p.m, p.n}), again = c;
  const Kernel bound = compile_product(bench, f32, p);
  bench.run(bound, {&a, &b}, {&c});
  FragmentBuilder f;
  const uint32_t ia = f.input(f32, a.dims), ib = f.constant(f32, b.dims, b.bytes);
  add_product(f, p, ia, ib, f.output(f32, c.dims));
  const Kernel constant = compile(bench.device, f.fragment());
  bench.run(constant, {&a}, {&again});
  CHECK(again.bytes == c.bytes);
  CHECK(info(bound).workspace_bytes - info(constant).workspace_bytes ==
        90 * 64 * 4);  // 50 columns are two panels
}

TEST_CASE("strips: batches, and a broadcast matrix is packed once for all its products") {
  if (const std::string why = why_no_strips(); !why.empty()) TENON_SKIP("strips", why);
  Strips bench;
  Random random(tenon::test::seed());
  const int64_t batch = 3;
  for (const bool shared : {false, true}) {
    const Product p{33, 40, 35, true, false};  // turned, so that the batch does not fold into the rows
    const Tensor a = random_tensor({batch, p.k, p.m}, random),
                 b = random_tensor(shared ? dims_b(p) : Dims{batch, p.k, p.n}, random);
    Tensor c(f32, {batch, p.m, p.n});
    FragmentBuilder f;
    const uint32_t ia = f.input(f32, a.dims), ib = f.input(f32, b.dims);
    add_product(f, p, ia, ib, f.output(f32, c.dims));
    const Kernel kernel = compile(bench.device, f.fragment());
    REQUIRE(std::string(info(kernel).engine) == engine.name);
    bench.run(kernel, {&a, &b}, {&c});
    for (int64_t i = 0; i < batch; ++i)
      CHECK(wrong(p, sums_of(p, matrix_of(a, i), shared ? b : matrix_of(b, i)), matrix_of(c, i)) == 0);
    if (shared)
      CHECK(info(kernel).workspace_bytes <
            batch * p.k * 64 * sizeof(float));  // less than three packed copies of b
  }
}

TEST_CASE("strips: batches over several blocks, of depth and of rows, and in parts") {
  if (const std::string why = why_no_strips(); !why.empty()) TENON_SKIP("strips", why);
  Strips bench("4");
  Random random(tenon::test::seed());
  const int64_t batch = 2;
  for (const Product& p :
       {Product{90, 1'300, 150}, Product{37, 2'100, 45, true, true}, Product{150, 1'100, 90, true, false}}) {
    const auto dims = [&](const Dims& of) { return Dims{batch, of[0], of[1]}; };
    const Tensor a = random_tensor(dims(dims_a(p)), random), b = random_tensor(dims(dims_b(p)), random);
    Tensor c(f32, {batch, p.m, p.n});
    FragmentBuilder f;
    const uint32_t ia = f.input(f32, a.dims), ib = f.input(f32, b.dims);
    add_product(f, p, ia, ib, f.output(f32, c.dims));
    bench.run(compile(bench.device, f.fragment()), {&a, &b}, {&c});
    for (int64_t i = 0; i < batch; ++i)
      CHECK(wrong(p, sums_of(p, matrix_of(a, i), matrix_of(b, i)), matrix_of(c, i)) == 0);
  }
}

TEST_CASE("strips: rows of the result lie apart, and constants are packed on either side") {
  if (const std::string why = why_no_strips(); !why.empty()) TENON_SKIP("strips", why);
  Strips bench;
  Random random(tenon::test::seed());
  const Product p{45, 1'300, 50, true, true};
  const Tensor a = random_tensor(dims_a(p), random), b = random_tensor(dims_b(p), random);
  const Sums sums = sums_of(p, a, b);
  for (const bool left : {false, true}) {
    Tensor c(f32, {p.m, p.n}, {p.n + 7, 1});
    FragmentBuilder f;
    const uint32_t ia = left ? f.constant(f32, a.dims, a.bytes) : f.input(f32, a.dims),
                   ib = left ? f.input(f32, b.dims) : f.constant(f32, b.dims, b.bytes);
    add_product(f, p, ia, ib, f.output(f32, c.dims, c.strides));
    const Kernel kernel = compile(bench.device, f.fragment());
    REQUIRE(std::string(info(kernel).engine) == engine.name);
    bench.run(kernel, {left ? &b : &a}, {&c});
    CHECK(wrong(p, sums, c) == 0);
  }
}

TEST_CASE("strips: what follows a product gives the bits that nodes of their own give") {
  if (const std::string why = why_no_strips(); !why.empty()) TENON_SKIP("strips", why);
  Strips bench;
  Random random(tenon::test::seed());
  const Product p{30, 1'100, 70};
  const Tensor a = random_tensor(dims_a(p), random), b = random_tensor(dims_b(p), random),
               bias = random_tensor({p.n}, random), residual = random_tensor({p.m, p.n}, random);
  for (const uint32_t op : {TN_OP_relu, TN_OP_sigmoid, TN_OP_tanh, TN_OP_silu}) {
    Tensor product(f32, {p.m, p.n}), apart = product, fused = product;
    const auto follow = [&](FragmentBuilder& f, uint32_t value) {
      const uint32_t biased = f.tensor(f32, product.dims), summed = f.tensor(f32, product.dims);
      f.node(TN_OP_add, {value, f.input(f32, bias.dims)}, {biased});
      f.node(TN_OP_add, {biased, f.input(f32, residual.dims)}, {summed});
      f.node(op, {summed}, {f.output(f32, product.dims)});
    };
    FragmentBuilder whole, after;
    const uint32_t ia = whole.input(f32, a.dims), ib = whole.input(f32, b.dims),
                   ic = whole.tensor(f32, product.dims);
    add_product(whole, p, ia, ib, ic);
    follow(whole, ic);
    const Kernel kernel = compile(bench.device, whole.fragment());
    REQUIRE(std::string(info(kernel).engine) == engine.name);
    bench.run(kernel, {&a, &b, &bias, &residual}, {&fused});
    bench.run(compile_product(bench, f32, p), {&a, &b}, {&product});
    follow(after, after.input(f32, product.dims));
    bench.run(compile(bench.device, after.fragment()), {&product, &bias, &residual}, {&apart});
    CHECK(fused.bytes == apart.bytes);
  }
}

TEST_CASE("strips: a product that is used up a few rows at a time gives the bits of the whole") {
  if (const std::string why = why_no_strips(); !why.empty()) TENON_SKIP("strips", why);
  options()["threads"] = "2";
  Bench bench;
  options().clear();
  Random random(tenon::test::seed());
  const Product p{1'101, 512, 512};  // more rows than a panel, and no multiple of one
  const Tensor a = random_tensor(dims_a(p), random), b = random_tensor(dims_b(p), random);
  Tensor product(f32, {p.m, p.n}), apart = product, fused = product;
  bench.run(compile_product(bench, f32, p), {&a, &b}, {&product});
  FragmentBuilder after;
  after.node(TN_OP_softmax, {after.input(f32, product.dims)}, {after.output(f32, product.dims)})
      .integer("axis", 1);
  bench.run(compile(bench.device, after.fragment()), {&product}, {&apart});
  for (const bool constant : {false, true}) {
    FragmentBuilder f;
    const uint32_t ia = f.input(f32, a.dims),
                   ib = constant ? f.constant(f32, b.dims, b.bytes) : f.input(f32, b.dims),
                   ic = f.tensor(f32, product.dims);
    add_product(f, p, ia, ib, ic);
    f.node(TN_OP_softmax, {ic}, {f.output(f32, product.dims)}).integer("axis", 1);
    const Kernel kernel = compile(bench.device, f.fragment());
    const std::string steps = info(kernel).engine;
    CHECK_MESSAGE(steps.starts_with(constant ? "matmul:strips+" : "strips:pack+matmul:strips+"), steps);
    CHECK(info(kernel).workspace_bytes < product.bytes.size() * 2);
    bench.run(kernel, constant ? std::vector<const Tensor*>{&a} : std::vector<const Tensor*>{&a, &b},
              {&fused});
    CHECK(fused.bytes == apart.bytes);
  }
}

TEST_CASE("strips: one kernel on several streams at once") {
  if (const std::string why = why_no_strips(); !why.empty()) TENON_SKIP("strips", why);
  Strips bench("3");
  Random random(tenon::test::seed());
  const Product p{120, 2'100, 90};
  const Tensor a = random_tensor(dims_a(p), random), b = random_tensor(dims_b(p), random);
  const Kernel kernel = compile_product(bench, f32, p);
  Tensor expected(f32, {p.m, p.n});
  bench.run(kernel, {&a, &b}, {&expected});
  std::vector<std::thread> callers;
  std::vector<Tensor> results(4, Tensor(f32, {p.m, p.n}));
  for (Tensor& result : results) {
    callers.emplace_back([&] {
      const Stream own = make_stream(bench.device);
      const Memory room = allocate(bench.device, info(kernel).workspace_bytes),
                   in = allocate(bench.device, a.bytes.size() + b.bytes.size()),
                   out = allocate(bench.device, result.bytes.size());
      std::memcpy(address(in), a.bytes.data(), a.bytes.size());
      std::memcpy(address(in) + a.bytes.size(), b.bytes.data(), b.bytes.size());
      const tn_span bindings[] = {span(in, 0, a.bytes.size()), span(in, a.bytes.size(), b.bytes.size()),
                                  span(out, 0, result.bytes.size())};
      const tn_span workspace = span(room, 0, info(kernel).workspace_bytes);
      for (int i = 0; i < 20; ++i) launch(kernel, own, bindings, &workspace);
      drain(own);
      std::memcpy(result.bytes.data(), address(out), result.bytes.size());
    });
  }
  for (std::thread& caller : callers) caller.join();
  for (const Tensor& result : results) CHECK(result.bytes == expected.bytes);
}

TEST_CASE("strips: large products go to them without being asked, and no others do") {
  if (const std::string why = why_no_strips(); !why.empty()) TENON_SKIP("strips", why);
  const auto goes = [](const Bench& bench, const Product& p) {
    return std::string(info(compile_product(bench, f32, p)).engine) == engine.name;
  };
  Bench bench;
  // On either side of each bound: rows, columns, depth, all of them, and how deep for so few.
  for (const Product& p : {Product{512, 1'024, 512}, Product{32'768, 128, 64}, Product{512, 4'096, 512}})
    CHECK_MESSAGE(goes(bench, p), words(p));
  for (const Product& p : {Product{511, 1'200, 512}, Product{32'768, 160, 63}, Product{32'768, 127, 65},
                           Product{512, 1'023, 512}, Product{512, 4'097, 512}})
    CHECK_MESSAGE(!goes(bench, p), words(p));
  for (const auto& [key, value] :
       std::vector<std::pair<std::string, std::string>>{{"isa", "avx2"}, {"engine", "interpreter"}}) {
    options()[key] = value;
    CHECK(!goes(Bench(), {1'024, 768, 768}));
    options().clear();
  }
}
