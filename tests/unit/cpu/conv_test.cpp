// SPDX-License-Identifier: Apache-2.0
// conv_test.cpp: convolutions where the conformance kit does not look: constant weights, channels last, groups on
// odd sizes, gradients in each of their ways, twice the same bits.
//
// Invariant: the error is held against length units of Σ|x·w|, the bound that a sum of any order has.
#include "strategies.hpp"
#include "tiles.hpp"

using namespace cpu_test;

namespace {

struct Case {
  Dims x, w, pad, stride, dilation;
  int64_t groups;
};

const std::vector<Case> cases = {
    {{2, 5, 9, 11}, {6, 5, 3, 3}, {1, 1, 1, 1}, {1, 1}, {1, 1}, 1},
    {{1, 6, 13, 7}, {4, 3, 3, 2}, {2, 0, 1, 1}, {3, 2}, {1, 1}, 2},
    {{2, 8, 7, 7}, {8, 1, 3, 3}, {1, 1, 1, 1}, {2, 2}, {1, 1}, 8},
    {{1, 4, 10, 12}, {8, 1, 3, 3}, {0, 2, 3, 1}, {1, 1}, {2, 3}, 4},
    {{3, 16, 5, 5}, {32, 16, 1, 1}, {0, 0, 0, 0}, {1, 1}, {1, 1}, 1},
};

Dims result_dims(const Case& c) {
  Dims out{c.x[0], c.w[0]};
  for (size_t d = 0; d < 2; ++d) {
    const int64_t room = c.x[2 + d] + c.pad[d] + c.pad[2 + d] - c.dilation[d] * (c.w[2 + d] - 1) - 1;
    out.push_back(room / c.stride[d] + 1);
  }
  return out;
}

Dims channels_last(const Dims& dims) { return {dims[1] * dims[2] * dims[3], 1, dims[3] * dims[1], dims[1]}; }

void add_conv(FragmentBuilder& f, const Case& c, uint32_t x, uint32_t w, uint32_t y) {
  f.node(TN_OP_conv2d, {x, w}, {y})
      .integers("dilation", c.dilation)
      .integer("groups", c.groups)
      .integers("pad", c.pad)
      .integers("stride", c.stride);
}

// Calls visit(result, pixel, weight) with the places of each product that the convolution sums.
template <class Visit>
void for_each_product(const Case& c, Visit&& visit) {
  const int64_t per_group = c.w[0] / c.groups;
  for_each(result_dims(c), [&](const Dims& at) {
    for_each({c.w[1], c.w[2], c.w[3]}, [&](const Dims& tap) {
      const int64_t h = at[2] * c.stride[0] - c.pad[0] + tap[1] * c.dilation[0],
                    v = at[3] * c.stride[1] - c.pad[1] + tap[2] * c.dilation[1];
      if (h < 0 || h >= c.x[2] || v < 0 || v >= c.x[3]) return;
      visit(at, Dims{at[0], at[1] / per_group * c.w[1] + tap[0], h, v}, Dims{at[1], tap[0], tap[1], tap[2]});
    });
  });
}

// What each element of a tensor should be: a sum of products.
class Sums {
 public:
  explicit Sums(const Dims& dims) : sums_(TN_DTYPE_f64, dims), sizes_(sums_) {
    for (Tensor* tensor : {&sums_, &sizes_}) for_each(dims, [&](const Dims& at) { tensor->set(at, 0); });
  }

  void add(const Dims& at, Number product) {
    sums_.set(at, sums_.at(at) + product);
    sizes_.set(at, sizes_.at(at) + std::fabs(product));
  }
  // `length`: products of one element.
  void check(const Tensor& made, int64_t length) const {
    const Number unit = made.dtype == TN_DTYPE_f64 ? 0x1p-53L : 0x1p-24L;
    int64_t off = 0;
    for_each(made.dims, [&](const Dims& at) {
      const Number bound = sizes_.at(at) * static_cast<Number>(length) * unit;
      if (!close(made.at(at), sums_.at(at), made.dtype, 0.5001L, bound)) ++off;
    });
    CHECK(off == 0);
  }

 private:
  Tensor sums_, sizes_;
};

void check_result(const Case& c, const Tensor& x, const Tensor& w, const Tensor& y) {
  Sums sums(y.dims);
  for_each_product(c, [&](const Dims& at, const Dims& pixel, const Dims& weight) {
    sums.add(at, x.at(pixel) * w.at(weight));
  });
  sums.check(y, c.w[1] * c.w[2] * c.w[3]);
}

void check_image_gradient(const Case& c, const Tensor& dy, const Tensor& w, const Tensor& dx) {
  Sums sums(c.x);
  for_each_product(c, [&](const Dims& at, const Dims& pixel, const Dims& weight) {
    sums.add(pixel, dy.at(at) * w.at(weight));
  });
  sums.check(dx, c.w[0] * c.w[2] * c.w[3]);
}

void check_all(Bench& bench, uint32_t dtype, bool last, bool constant) {
  Random random(tenon::test::seed());
  for (const Case& c : cases) {
    CAPTURE(label(TN_OP_conv2d, dtype, c.x));
    const Dims dims = result_dims(c);
    Tensor x(dtype, c.x, last ? channels_last(c.x) : Dims{}), w(dtype, c.w),
        y(dtype, dims, last ? channels_last(dims) : Dims{});
    randomize(x, random, false);
    randomize(w, random, false);
    FragmentBuilder f;
    const uint32_t ix = f.input(dtype, c.x, x.strides);
    const uint32_t iw = constant ? f.constant(dtype, c.w, w.bytes) : f.input(dtype, c.w);
    add_conv(f, c, ix, iw, f.output(dtype, dims, y.strides));
    const Kernel kernel = compile(bench.device, f.fragment());
    const std::vector<const Tensor*> inputs =
        constant ? std::vector<const Tensor*>{&x} : std::vector<const Tensor*>{&x, &w};
    bench.run(kernel, inputs, {&y});
    check_result(c, x, w, y);
    Tensor again(dtype, dims, y.strides);
    bench.run(kernel, inputs, {&again});
    CHECK(again.bytes == y.bytes);
  }
}

}  // namespace

TEST_CASE("conv: f64, by loops of our own, whatever lies nearest in memory") {
  Bench bench;
  for (const bool last : {false, true}) check_all(bench, TN_DTYPE_f64, last, last);
}

TEST_CASE("conv: f32, bf16 and f16, channels first and last, weights bound and constant") {
  Bench bench;
  if (!has_onednn(bench.device)) TENON_SKIP("onednn", no_onednn);
  for (const uint32_t dtype : {TN_DTYPE_f32, TN_DTYPE_bf16, TN_DTYPE_f16}) {
    for (const bool last : {false, true}) {
      for (const bool constant : {false, true}) check_all(bench, dtype, last, constant);
    }
  }
}

namespace {

// One window of one pixel: y[n, o, h, v] = Σ x[n, c, h, v] · w[o, c], and its gradients by the same letters.
struct Pointwise {
  Dims x, w, y;
  const Dims& dims_of(char tensor) const { return tensor == 'x' ? x : tensor == 'w' ? w : y; }
};

// By an engine of products. Of the two operands and the result: image, weights or result.
void check_pointwise(Bench& bench, uint32_t dtype, const std::string& engine, const Pointwise& p, uint32_t op,
                     char a, char b, char c) {
  Random random(tenon::test::seed());
  const auto make = [&](char which) {
    const Dims& dims = p.dims_of(which);
    return Tensor(dtype, dims, which == 'w' ? Dims{} : channels_last(dims));
  };
  Tensor left = make(a), right = make(b), made = make(c);
  randomize(left, random, false);
  randomize(right, random, false);
  FragmentBuilder f;
  const uint32_t in_a = f.input(dtype, left.dims, left.strides),
                 in_b = f.input(dtype, right.dims, right.strides);
  auto& node = f.node(op, {in_a, in_b}, {f.output(dtype, made.dims, made.strides)});
  node.integers("dilation", {1, 1}).integer("groups", 1);
  if (c == 'x') node.integers("input_shape", p.x);
  node.integers("pad", {0, 0, 0, 0}).integers("stride", {1, 1});
  if (c == 'w') node.integers("weight_shape", p.w);
  const Kernel kernel = compile(bench.device, f.fragment());
  CHECK(std::string(info(kernel).engine) == engine);
  bench.run(kernel, {&left, &right}, {&made});
  Sums sums(made.dims);
  int64_t terms = 0;
  for_each({p.x[0], p.w[0], p.w[1], p.x[2], p.x[3]}, [&](const Dims& i) {
    const auto at = [&](char tensor) {
      if (tensor == 'w') return Dims{i[1], i[2], 0, 0};
      return Dims{i[0], tensor == 'x' ? i[2] : i[1], i[3], i[4]};
    };
    sums.add(at(c), left.at(at(a)) * right.at(at(b)));
    ++terms;
  });
  sums.check(made, terms / made.count());
}

void check_pointwise(uint32_t dtype, const std::string& way) {
  options()["prefer"] = way;
  Bench bench;
  options().clear();
  const std::string engine = "matmul:" + way;
  for (const Pointwise& p : {Pointwise{{2, 24, 5, 7}, {40, 24, 1, 1}, {2, 40, 5, 7}},
                             Pointwise{{3, 7, 9, 11}, {5, 7, 1, 1}, {3, 5, 9, 11}},
                             Pointwise{{1, 33, 17, 19}, {65, 33, 1, 1}, {1, 65, 17, 19}}}) {
    check_pointwise(bench, dtype, engine, p, TN_OP_conv2d, 'x', 'w', 'y');
    check_pointwise(bench, dtype, engine, p, TN_OP_conv2d_grad_data, 'y', 'w', 'x');
    check_pointwise(bench, dtype, engine, p, TN_OP_conv2d_grad_weight, 'x', 'y', 'w');
  }
}

}  // namespace

TEST_CASE("conv: a window of one pixel is a product on tiles, and so are its gradients") {
  if (const char* why = why_no_tiles()) TENON_SKIP("amx", why);
  check_pointwise(TN_DTYPE_bf16, "amx");
}

TEST_CASE("conv: a window of one pixel is a product in strips, and so are its gradients") {
  if (const std::string why = why_no_strips(); !why.empty()) TENON_SKIP("strips", why);
  check_pointwise(TN_DTYPE_f32, "strips");
}

TEST_CASE("conv: large one-pixel windows in f32 go to strips without being asked") {
  if (const std::string why = why_no_strips(); !why.empty()) TENON_SKIP("strips", why);
  Bench bench;
  const Pointwise p{{1, 256, 64, 64}, {256, 256, 1, 1}, {1, 256, 64, 64}};
  const auto engine_of = [&](uint32_t op, char a, char b, char c) {
    FragmentBuilder f;
    const auto strides = [&](char which) { return which == 'w' ? Dims{} : channels_last(p.dims_of(which)); };
    const uint32_t left = f.input(TN_DTYPE_f32, p.dims_of(a), strides(a)),
                   right = f.input(TN_DTYPE_f32, p.dims_of(b), strides(b));
    auto& node = f.node(op, {left, right}, {f.output(TN_DTYPE_f32, p.dims_of(c), strides(c))});
    node.integers("dilation", {1, 1}).integer("groups", 1);
    if (c == 'x') node.integers("input_shape", p.x);
    node.integers("pad", {0, 0, 0, 0}).integers("stride", {1, 1});
    if (c == 'w') node.integers("weight_shape", p.w);
    return std::string(info(compile(bench.device, f.fragment())).engine);
  };
  CHECK(engine_of(TN_OP_conv2d, 'x', 'w', 'y') == "matmul:strips");
  CHECK(engine_of(TN_OP_conv2d_grad_data, 'y', 'w', 'x') == "matmul:strips");
  CHECK(engine_of(TN_OP_conv2d_grad_weight, 'x', 'y', 'w') != "matmul:strips");  // of 256 rows
}

TEST_CASE("conv: the gradient of many channels' one-pixel weights goes to the tiles without being asked") {
  if (const char* why = why_no_tiles()) TENON_SKIP("amx", why);
  Bench bench;
  check_pointwise(bench, TN_DTYPE_bf16, "matmul:amx", {{2, 64, 5, 7}, {80, 64, 1, 1}, {2, 80, 5, 7}},
                  TN_OP_conv2d_grad_weight, 'x', 'y', 'w');
}

namespace {

struct ImageGradient {
  std::string engine;
  bool widened;  // halves are computed in f32
};
ImageGradient run_image_gradient(Bench& bench, const Case& c, uint32_t dtype, bool constant,
                                 bool turned_weights) {
  Random random(tenon::test::seed());
  const Dims dims = result_dims(c);
  Tensor dy(dtype, dims, channels_last(dims)), w(dtype, c.w, turned_weights ? channels_last(c.w) : Dims{}),
      dx(dtype, c.x, channels_last(c.x));
  randomize(dy, random, false);
  randomize(w, random, false);
  FragmentBuilder f;
  const uint32_t in = f.input(dtype, dims, dy.strides);
  const uint32_t weights = constant ? f.constant(dtype, c.w, w.bytes) : f.input(dtype, c.w, w.strides);
  f.node(TN_OP_conv2d_grad_data, {in, weights}, {f.output(dtype, c.x, dx.strides)})
      .integers("dilation", c.dilation)
      .integer("groups", c.groups)
      .integers("input_shape", c.x)
      .integers("pad", c.pad)
      .integers("stride", c.stride);
  const Kernel kernel = compile(bench.device, f.fragment());
  bench.run(kernel, constant ? std::vector<const Tensor*>{&dy} : std::vector<const Tensor*>{&dy, &w}, {&dx});
  check_image_gradient(c, dy, w, dx);
  return {info(kernel).engine, supports(bench.device, f.fragment()).verdict == TN_SUPPORT_CONVERTED};
}

const std::vector<Case> moving_by_one = {
    {{2, 5, 9, 11}, {6, 5, 3, 3}, {1, 1, 1, 1}, {1, 1}, {1, 1}, 1},
    {{1, 17, 6, 7}, {16, 17, 2, 3}, {0, 2, 1, 1}, {1, 1}, {1, 2}, 1},
    {{1, 16, 5, 5}, {17, 16, 4, 4}, {3, 0, 0, 2}, {1, 1}, {1, 1}, 1},
    {{3, 16, 5, 5}, {32, 16, 1, 1}, {0, 0, 0, 0}, {1, 1}, {1, 1}, 1},
};

}  // namespace

TEST_CASE("conv: the gradient of an image is a convolution with turned weights where windows move by one") {
  for (const uint32_t dtype : {TN_DTYPE_f32, TN_DTYPE_f16, TN_DTYPE_bf16}) {
    if (dtype == TN_DTYPE_bf16) options()["prefer"] = "onednn:turned";
    Bench bench;
    if (!has_onednn(bench.device)) TENON_SKIP("onednn", no_onednn);
    for (const Case& c : moving_by_one) {
      CAPTURE(label(TN_OP_conv2d_grad_data, dtype, c.x));
      for (const bool constant : {false, true}) {
        const ImageGradient ran = run_image_gradient(bench, c, dtype, constant, false);
        // Constants are turned at compile, unless each run widens them.
        const bool turns = c.w[2] * c.w[3] > 1 && (!constant || ran.widened);
        CHECK_MESSAGE((ran.engine.find("move") != ran.engine.npos) == turns, ran.engine);
      }
      run_image_gradient(bench, c, dtype, false, true);
    }
  }
  options().clear();
}

TEST_CASE(
    "conv: the gradient of an image under windows that skip, or are padded beyond themselves, goes back") {
  Bench bench;
  if (!has_onednn(bench.device)) TENON_SKIP("onednn", no_onednn);
  for (const Case& c : {Case{{1, 8, 9, 7}, {16, 8, 3, 3}, {1, 1, 1, 1}, {2, 1}, {1, 1}, 1},
                        Case{{1, 8, 9, 7}, {16, 4, 3, 3}, {1, 1, 1, 1}, {1, 1}, {1, 1}, 2},
                        Case{{1, 8, 5, 7}, {16, 8, 2, 2}, {2, 0, 2, 1}, {1, 1}, {1, 1}, 1}}) {
    const std::string engine = run_image_gradient(bench, c, TN_DTYPE_f32, false, false).engine;
    CHECK_MESSAGE(engine.find("move") == engine.npos, engine);
  }
}

TEST_CASE("conv: without channels the result is zeros") {
  Bench bench;
  FragmentBuilder f;
  const Case none{{1, 0, 3, 3}, {2, 0, 2, 2}, {0, 0, 0, 0}, {1, 1}, {1, 1}, 1};
  add_conv(f, none, f.input(TN_DTYPE_f64, none.x), f.input(TN_DTYPE_f64, none.w),
           f.output(TN_DTYPE_f64, {1, 2, 2, 2}));
  const Tensor x(TN_DTYPE_f64, none.x), w(TN_DTYPE_f64, none.w);
  Tensor y(TN_DTYPE_f64, {1, 2, 2, 2});
  bench.run(compile(bench.device, f.fragment()), {&x, &w}, {&y});
  for_each(y.dims, [&](const Dims& at) { CHECK(y.at(at) == 0); });
}

namespace {

// What compile says to a limit on the workspace: the bytes of the kernel, or a refusal.
struct Limited {
  int32_t code = TN_OK;
  std::string message{};
  uint64_t bytes = 0;
};
Limited compiled_within(Bench& bench, const tn_fragment& fragment, uint64_t limit) {
  const tn_compile_options allowed{.size = sizeof allowed,
                                   .comm_count = 0,
                                   .budget_ms = 0,
                                   .workspace_limit = limit,
                                   .comms = nullptr,
                                   .next = nullptr};
  tn_kernel* kernel = nullptr;
  const Outcome outcome = outcome_of(
      [&](tn_error* e) { return plugin().kernel->compile(bench.device, &fragment, &allowed, &kernel, e); });
  if (outcome.code != TN_OK) return {.code = outcome.code, .message = outcome.message()};
  return {.bytes = info(Kernel(kernel)).workspace_bytes};
}

}  // namespace

TEST_CASE(
    "conv: a limit on the workspace is kept, or refused with what is needed, and its own need is enough") {
  Bench bench;
  if (!has_onednn(bench.device)) TENON_SKIP("onednn", no_onednn);
  size_t with_workspace = 0;
  for (const uint32_t dtype : {TN_DTYPE_f32, TN_DTYPE_bf16, TN_DTYPE_f16}) {
    for (const Case& c : cases) {
      CAPTURE(label(TN_OP_conv2d, dtype, c.x));
      FragmentBuilder f;
      const uint32_t x = f.input(dtype, c.x), w = f.input(dtype, c.w);
      add_conv(f, c, x, w, f.output(dtype, result_dims(c)));
      const uint64_t free = compiled_within(bench, f.fragment(), TN_COMPILE_NO_LIMIT).bytes;
      with_workspace += free > 0 ? 1 : 0;
      CHECK(compiled_within(bench, f.fragment(), free).bytes == free);
      for (const uint64_t limit : {uint64_t{0}, free / 2, free - std::min<uint64_t>(free, 1)}) {
        const Limited made = compiled_within(bench, f.fragment(), limit);
        if (made.code == TN_OK) {
          CHECK(made.bytes <= limit);
          continue;
        }
        CHECK(made.code == TN_UNSUPPORTED);
        CHECK_MESSAGE(made.message.find("bytes of workspace, and the limit is " + std::to_string(limit)) !=
                          std::string::npos,
                      made.message);
      }
    }
  }
  CHECK(with_workspace > 0);
}
