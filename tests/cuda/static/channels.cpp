// SPDX-License-Identifier: Apache-2.0
// channels.cpp: batch norms alone and with their neighbours, pools, and sums by index, in images of either order of dims.
#include "fragments.hpp"

namespace tenon::cuda::test {

using author::FragmentBuilder;
using Dims = std::vector<int64_t>;

namespace {

struct Order {
  const char* name;
  bool last;  // channels are neighbours
};
constexpr Order orders[] = {{"nchw", false}, {"nhwc", true}};
constexpr uint32_t floats[] = {TN_DTYPE_f16, TN_DTYPE_bf16, TN_DTYPE_f32, TN_DTYPE_f64};

Dims strides_of(const Dims& dims, bool last) {
  if (last) return {dims[1] * dims[2] * dims[3], 1, dims[3] * dims[1], dims[1]};
  return {dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1};
}

// Images of one size and type, and their parameters.
struct Images {
  FragmentBuilder& f;
  uint32_t dtype;
  bool last;
  Dims dims{64, 256, 28, 28};

  uint32_t parameter() { return f.input(dtype == TN_DTYPE_f64 ? dtype : uint32_t{TN_DTYPE_f32}, {dims[1]}); }
  uint32_t statistic() { return f.output(TN_DTYPE_f32, {dims[1]}); }
  uint32_t input() { return f.input(dtype, dims, strides_of(dims, last)); }
  uint32_t inner() { return f.tensor(dtype, dims, strides_of(dims, last)); }
  uint32_t output() { return f.output(dtype, dims, strides_of(dims, last)); }
};

void train(Images t, uint32_t y) {
  t.f.node(TN_OP_batch_norm_train, {t.input(), t.parameter(), t.parameter(), t.parameter(), t.parameter()},
           {y, t.statistic(), t.statistic(), t.statistic(), t.statistic()})
      .real("epsilon", 1e-5)
      .real("momentum", 0.9);
}
void infer(Images t, uint32_t op) {
  auto& node =
      t.f.node(op, {t.input(), t.parameter(), t.parameter(), t.parameter(), t.parameter()}, {t.output()});
  if (op == TN_OP_batch_norm_infer) node.real("epsilon", 1e-5);
}
void train_add_act(Images t) {
  const uint32_t y = t.inner(), sum = t.inner();
  train(t, y);
  t.f.node(TN_OP_add, {y, t.input()}, {sum});
  t.f.node(TN_OP_relu, {sum}, {t.output()});
}
void grad(Images t, bool act) {
  uint32_t dy = t.input();
  if (act) {
    const uint32_t before = t.inner();
    t.f.node(TN_OP_relu_grad, {dy, t.input()}, {before});
    dy = before;
  }
  t.f.node(TN_OP_batch_norm_grad, {dy, t.input(), t.parameter(), t.parameter(), t.parameter()},
           {t.output(), t.statistic(), t.statistic()});
}
// Of a relu whose value is made again of x.
void grad_of_relu(Images t) {
  const uint32_t x = t.input(), dy = t.input(), y = t.inner(), before = t.inner();
  const uint32_t scale = t.parameter(), bias = t.parameter(), mean = t.parameter(), inverse = t.parameter();
  t.f.node(TN_OP_batch_norm_apply, {x, scale, bias, mean, inverse}, {y});
  t.f.node(TN_OP_relu_grad, {dy, y}, {before});
  t.f.node(TN_OP_batch_norm_grad, {before, x, scale, mean, inverse},
           {t.output(), t.statistic(), t.statistic()});
}
void grad_apply(Images t) {
  const auto sum = [&] { return t.f.input(TN_DTYPE_f32, {t.dims[1]}); };
  t.f.node(TN_OP_batch_norm_grad_apply,
           {t.input(), t.input(), t.parameter(), t.parameter(), t.parameter(), sum(), sum(),
            t.f.input(TN_DTYPE_f32, {})},
           {t.output()});
}
void grad_stats(Images t) {
  t.f.node(TN_OP_batch_norm_grad_stats, {t.input(), t.input(), t.parameter(), t.parameter()},
           {t.statistic(), t.statistic()});
}

void window(FragmentBuilder::Node& node, uint32_t op, int64_t size, int64_t step, int64_t pad) {
  node.integers("kernel", {size, size})
      .integers("stride", {step, step})
      .integers("pad", {pad, pad, pad, pad});
  if (op == TN_OP_avg_pool || op == TN_OP_avg_pool_grad) node.integer("count_pad", 0);
}

void pool(FragmentBuilder& f, uint32_t op, uint32_t dtype, bool last, int64_t size, int64_t step,
          int64_t pad) {
  const Dims x{32, 64, 112, 112};
  const int64_t windows = (112 + 2 * pad - size) / step + 1;
  const Dims y{32, 64, windows, windows};
  const auto image = [&] { return f.input(dtype, x, strides_of(x, last)); };
  const auto of_windows = [&] { return f.input(dtype, y, strides_of(y, last)); };
  const bool gradient = op == TN_OP_max_pool_grad || op == TN_OP_avg_pool_grad;
  std::vector<uint32_t> inputs{gradient ? of_windows() : image()};
  if (op == TN_OP_max_pool_grad) inputs.push_back(image());
  const Dims& made = gradient ? x : y;
  auto& node = f.node(op, inputs, {f.output(dtype, made, strides_of(made, last))});
  window(node, op, size, step, pad);
  if (op == TN_OP_avg_pool_grad) node.integers("input_shape", x);
}

void add_norms(std::vector<Example>& out, uint32_t dtype, const Order& order) {
  const std::string suffix = "_" + std::string(author::dtype_name(dtype)) + "_" + order.name;
  const auto add = [&](const std::string& name, auto build) {
    out.push_back({name + suffix, [=](FragmentBuilder& f) { build(Images{f, dtype, order.last}); }});
  };
  add("batch_norm_train", [](Images t) { train(t, t.output()); });
  add("batch_norm_add_act", train_add_act);
  add("batch_norm_infer", [](Images t) { infer(t, TN_OP_batch_norm_infer); });
  add("batch_norm_apply", [](Images t) { infer(t, TN_OP_batch_norm_apply); });
  add("batch_norm_stats", [](Images t) {
    t.f.node(TN_OP_batch_norm_stats, {t.input()}, {t.statistic(), t.statistic()});
  });
  add("batch_norm_grad", [](Images t) { grad(t, false); });
  add("batch_norm_act_grad", [](Images t) { grad(t, true); });
  add("batch_norm_relu_grad", grad_of_relu);
  add("batch_norm_grad_stats", grad_stats);
  add("batch_norm_grad_apply", grad_apply);
  add("global_pool", [](Images t) {
    t.f.node(TN_OP_global_pool, {t.input()}, {t.f.output(t.dtype, {t.dims[0], t.dims[1], 1, 1})});
  });
}

void add_pools(std::vector<Example>& out, uint32_t dtype, const Order& order) {
  const std::string suffix = "_" + std::string(author::dtype_name(dtype)) + "_" + order.name;
  for (const uint32_t op : {TN_OP_max_pool, TN_OP_avg_pool, TN_OP_max_pool_grad, TN_OP_avg_pool_grad}) {
    const std::string name(author::op_name(op));
    out.push_back({name + suffix, [=](auto& f) { pool(f, op, dtype, order.last, 3, 2, 1); }});
    out.push_back({name + "_large" + suffix, [=](auto& f) { pool(f, op, dtype, order.last, 17, 1, 8); }});
  }
}

}  // namespace

void add_channels(std::vector<Example>& out) {
  for (const uint32_t dtype : floats) {
    for (const Order& order : orders) {
      add_norms(out, dtype, order);
      add_pools(out, dtype, order);
    }
    for (const uint32_t index : {TN_DTYPE_i32, TN_DTYPE_i64, TN_DTYPE_u8}) {
      out.push_back({"embedding_grad_" + std::string(author::dtype_name(index)) + "_" +
                         std::string(author::dtype_name(dtype)),
                     [=](FragmentBuilder& f) {
                       f.node(TN_OP_embedding_grad,
                              {f.input(index, {8, 1024}), f.input(dtype, {8, 1024, 1024})},
                              {f.output(dtype, {50000, 1024})})
                           .integer("rows", 50000);
                     }});
    }
  }
}

}  // namespace tenon::cuda::test
