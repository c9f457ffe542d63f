// SPDX-License-Identifier: Apache-2.0
// amx_test.cpp: products of bf16 on tile registers: every size around a tile and a block, what comes after the product, and
// numbers that are none.
//
// Invariant: the reference sums in double; a result may be off by its own rounding and by depth units of Σ|a·b| in f32.
#include "products.hpp"
#include "tiles.hpp"

using namespace cpu_test;

namespace {

constexpr uint32_t bf16 = TN_DTYPE_bf16;

// Products that go to the tiles, whatever their size.
struct Tiles : Bench {
  explicit Tiles(const char* threads = nullptr) : Bench((prepare(threads), Bench())) {}
  ~Tiles() { options().clear(); }
  static void prepare(const char* threads) {
    options()["prefer"] = "amx";
    if (threads != nullptr) options()["threads"] = threads;
  }
};

constexpr Engine engine{bf16, "matmul:amx", 0x1p-13};

void check(Bench& bench, const Product& p, Random& random) { check(bench, engine, p, random); }
void check_after(Bench& bench, const Product& p, const After& after, Random& random) {
  check_after(bench, engine, p, after, random);
}

}  // namespace

TEST_CASE("amx: every size around a tile, turned or not") {
  if (const char* why = why_no_tiles()) TENON_SKIP("amx", why);
  Tiles bench;
  Random random(tenon::test::seed());
  const std::vector<int64_t> sizes = {1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65},
                             depths = {1, 2, 3, 15, 16, 17, 31, 32, 33, 63, 65, 97, 128};
  const auto each = tenon::test::full_numbers_or<size_t>("depths for each pair of sizes", 2, depths.size());
  size_t depth = 0;
  for (const int64_t m : sizes) {
    for (const int64_t n : sizes) {
      for (size_t i = 0; i < each; ++i, ++depth)
        check(bench, {m, depths[depth % depths.size()], n, depth % 4 > 1, depth % 2 > 0}, random);
    }
  }
}

TEST_CASE("amx: more rows, columns and depth than a block, none of them whole") {
  if (const char* why = why_no_tiles()) TENON_SKIP("amx", why);
  Tiles bench;
  Random random(tenon::test::seed());
  check(bench, {301, 1'109, 571}, random);
  check(bench, {523, 544, 97, true, true}, random);
}

TEST_CASE("amx: a deep product of few elements is summed in parts, and gives the same bits every time") {
  if (const char* why = why_no_tiles()) TENON_SKIP("amx", why);
  Tiles bench("4");
  Random random(tenon::test::seed());
  const Product p{37, 5'003, 45};
  Tensor a(bf16, dims_a(p)), b(bf16, dims_b(p));
  randomize(a, random, false);
  randomize(b, random, false);
  const Kernel kernel = compile_product(bench, bf16, p);
  Tensor first(bf16, {p.m, p.n});
  bench.run(kernel, {&a, &b}, {&first});
  CHECK(wrong(p, sums_of(p, a, b), first) == 0);
  for (int i = 0; i < 10; ++i) {
    Tensor again(bf16, {p.m, p.n});
    bench.run(kernel, {&a, &b}, {&again});
    CHECK(again.bytes == first.bytes);
  }
}

TEST_CASE("amx: infinities and NaN reach their row and column, and nothing beyond") {
  if (const char* why = why_no_tiles()) TENON_SKIP("amx", why);
  Tiles bench;
  Random random(tenon::test::seed());
  const Number inf = std::numeric_limits<Number>::infinity(), nan = std::numeric_limits<Number>::quiet_NaN();
  for (const Product& p : {Product{19, 33, 21}, Product{40, 1, 33}, Product{33, 47, 18, true, true}}) {
    Tensor a(bf16, dims_a(p)), b(bf16, dims_b(p)), c(bf16, {p.m, p.n});
    randomize(a, random, false);
    randomize(b, random, false);
    const auto put = [&](Tensor& tensor, bool turned, int64_t row, int64_t column, Number x) {
      tensor.set(turned ? Dims{column, row} : Dims{row, column}, x);
    };
    put(a, p.turn_a, 3, p.k - 1, inf);  // the last of an odd depth, beside what fills the tile
    put(a, p.turn_a, 5, 0, nan);
    put(b, p.turn_b, p.k - 1, 7, -inf);
    put(b, p.turn_b, 0, 9, 0);
    put(a, p.turn_a, 11, 0, inf);
    bench.run(compile_product(bench, bf16, p), {&a, &b}, {&c});
    CHECK(wrong(p, sums_of(p, a, b), c) == 0);
    CHECK(std::isnan(c.at({5, 2})));
    CHECK(std::isnan(c.at({11, 9})));
    CHECK(std::isfinite(c.at({4, 2})));
    CHECK(std::isinf(c.at({p.m - 1, 7})));
  }
}

TEST_CASE("amx: bias, residual and activation come with the product, rounded once") {
  if (const char* why = why_no_tiles()) TENON_SKIP("amx", why);
  Tiles bench;
  Random random(tenon::test::seed());
  const std::vector<std::pair<uint32_t, bool>> acts = {
      {TN_OP_identity, false}, {TN_OP_relu, false}, {TN_OP_gelu, false}, {TN_OP_gelu, true},
      {TN_OP_sigmoid, false},  {TN_OP_tanh, false}, {TN_OP_silu, false}};
  for (const auto& [op, tanh_form] : acts) {
    for (const bool bias : {false, true}) {
      for (const bool residual : {false, true})
        check_after(bench, {35, 7, 50}, {bias, residual, op, tanh_form}, random);
    }
    check_after(bench, {33, 600, 31}, {true, true, op, tanh_form}, random);
  }
}

TEST_CASE("amx: what follows a deep product summed in parts is computed once, on the whole sum") {
  if (const char* why = why_no_tiles()) TENON_SKIP("amx", why);
  Tiles bench("4");
  Random random(tenon::test::seed());
  check_after(bench, {17, 3'000, 40}, {true, true, TN_OP_relu, false}, random);
}

TEST_CASE("amx: of many squares each is finished once, with one block of depth and with several") {
  if (const char* why = why_no_tiles()) TENON_SKIP("amx", why);
  Tiles bench;
  Random random(tenon::test::seed());
  for (const int64_t depth : {20, 500, 700, 1'100})
    check_after(bench, {300, depth, 550}, {true, true, TN_OP_gelu, false}, random);
}

TEST_CASE("amx: an activation is its limit far out, and NaN stays NaN") {
  if (const char* why = why_no_tiles()) TENON_SKIP("amx", why);
  Tiles bench;
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> at = {
      0,   0.01, -0.01, 0.5, -0.5, -2,  -5,   -9,    -12.75, 12.75, -13,
      -20, 30,   -80,   80,  -300, 300, 3e38, -3e38, inf,    -inf,  std::numeric_limits<double>::quiet_NaN()};
  const auto n = static_cast<int64_t>(at.size());
  const Product p{5, 40, n};
  for (const auto& act : std::vector<std::pair<uint32_t, bool>>{{TN_OP_relu, false},
                                                                {TN_OP_gelu, false},
                                                                {TN_OP_gelu, true},
                                                                {TN_OP_sigmoid, false},
                                                                {TN_OP_tanh, false},
                                                                {TN_OP_silu, false}}) {
    const uint32_t op = act.first;
    const bool tanh_form = act.second;
    FragmentBuilder f;
    const uint32_t ia = f.input(bf16, dims_a(p)), ib = f.input(bf16, dims_b(p)), bias = f.input(bf16, {n}),
                   product = f.tensor(bf16, {p.m, n}), sum = f.tensor(bf16, {p.m, n});
    add_product(f, p, ia, ib, product);
    f.node(TN_OP_add, {product, bias}, {sum});
    auto& node = f.node(op, {sum}, {f.output(bf16, {p.m, n})});
    if (op == TN_OP_gelu) node.integer("tanh", tanh_form);
    Tensor a(bf16, dims_a(p)), b(bf16, dims_b(p)), x(bf16, {n}), y(bf16, {p.m, n});
    for (Tensor* zero : {&a, &b}) for_each(zero->dims, [&](const Dims& where) { zero->set(where, 0); });
    for (int64_t i = 0; i < n; ++i) x.set({i}, rounded(at[static_cast<size_t>(i)], bf16));
    bench.run(compile(bench.device, f.fragment()), {&a, &b, &x}, {&y});
    for (int64_t i = 0; i < n; ++i) {
      const auto given = static_cast<double>(x.at({i})), got = static_cast<double>(y.at({p.m - 1, i}));
      CAPTURE(op);
      CAPTURE(tanh_form);
      CAPTURE(given);
      CAPTURE(got);
      // ∞ · 0 in the formula is NaN; what is computed may be the limit.
      const double expected = activated(op, tanh_form, given);
      if (std::isnan(given))
        CHECK(std::isnan(got));
      else if (std::isinf(expected) || std::fabs(expected) > 1.9e-36)
        CHECK(close(y.at({p.m - 1, i}), expected, bf16, 0.51L, 0x1p-13 * std::fabs(expected)));
      else if (!std::isnan(expected))
        CHECK(std::fabs(got) < 1.9e-36);
    }
  }
}

TEST_CASE("amx: a constant operand is packed at compile, with the same bits and less workspace") {
  if (const char* why = why_no_tiles()) TENON_SKIP("amx", why);
  Tiles bench;
  Random random(tenon::test::seed());
  const Product p{70, 90, 50};
  Tensor a(bf16, dims_a(p)), b(bf16, dims_b(p)), c(bf16, {p.m, p.n}), again = c;
  randomize(a, random, false);
  randomize(b, random, false);
  const Kernel bound = compile_product(bench, bf16, p);
  bench.run(bound, {&a, &b}, {&c});
  FragmentBuilder f;
  const uint32_t ia = f.input(bf16, a.dims), ib = f.constant(bf16, b.dims, b.bytes);
  add_product(f, p, ia, ib, f.output(bf16, c.dims));
  const Kernel constant = compile(bench.device, f.fragment());
  bench.run(constant, {&a}, {&again});
  CHECK(again.bytes == c.bytes);
  // 90 numbers deep and 50 wide are 96 by 64 in tiles.
  CHECK(info(bound).workspace_bytes - info(constant).workspace_bytes == 96 * 64 * 2);
}

TEST_CASE("amx: a broadcast matrix is packed once for all its products") {
  if (const char* why = why_no_tiles()) TENON_SKIP("amx", why);
  Tiles bench;
  Random random(tenon::test::seed());
  const int64_t batch = 3;
  const Product p{33, 40, 35, true, false};  // turned, so that the batch does not fold into the rows
  Tensor a(bf16, {batch, p.k, p.m}), b(bf16, dims_b(p)), c(bf16, {batch, p.m, p.n});
  randomize(a, random, false);
  randomize(b, random, false);
  FragmentBuilder f;
  const uint32_t ia = f.input(bf16, a.dims), ib = f.input(bf16, b.dims);
  add_product(f, p, ia, ib, f.output(bf16, c.dims));
  const Kernel kernel = compile(bench.device, f.fragment());
  REQUIRE(std::string(info(kernel).engine) == "matmul:amx");
  bench.run(kernel, {&a, &b}, {&c});
  const auto part = [](const Tensor& whole, int64_t index) {
    Tensor out(whole.dtype, {whole.dims[1], whole.dims[2]});
    for_each(out.dims, [&](const Dims& at) { out.set(at, whole.at({index, at[0], at[1]})); });
    return out;
  };
  for (int64_t i = 0; i < batch; ++i) CHECK(wrong(p, sums_of(p, part(a, i), b), part(c, i)) == 0);
  const uint64_t once = 64 * 64 * 2;  // either operand, in whole tiles
  CHECK(info(kernel).workspace_bytes < (batch + 1) * once);
}

TEST_CASE("amx: f32 stays with oneDNN, whatever is preferred") {
  Tiles bench;
  if (!has_onednn(bench.device)) TENON_SKIP("onednn", no_onednn);
  FragmentBuilder f;
  const uint32_t a = f.input(TN_DTYPE_f32, {64, 64}), b = f.input(TN_DTYPE_f32, {64, 64});
  add_product(f, {64, 64, 64}, a, b, f.output(TN_DTYPE_f32, {64, 64}));
  CHECK(std::string(info(compile(bench.device, f.fragment())).engine).starts_with("onednn:"));
}
