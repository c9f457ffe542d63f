// SPDX-License-Identifier: Apache-2.0
// patterns_test.cpp: each fusion that training asks for is one kernel, or is refused in words that name the node in the way.
//
// What is served is compiled too, over the stand-ins of cuBLASLt and cuDNN; plugins/cuda/README.md has the same table in words.
// Invariant: a row names a fragment and what is said of it: nothing when it is served, else words of the refusal.
#include "products.hpp"

using namespace cuda_test;

namespace {

using Dims = std::vector<int64_t>;
constexpr uint32_t half = TN_DTYPE_bf16, single = TN_DTYPE_f32;

struct Row {
  const char* name;
  void (*write)(FragmentBuilder&);
  const char* refusal;
};

const Dims rows{8, 16}, row{16}, images{2, 4, 6, 6}, channels{4, 1, 1}, filters{4, 1, 3, 3};

// op(inputs…) as a tensor on the way, or as an output.
uint32_t go_on(FragmentBuilder& f, uint32_t op, std::vector<uint32_t> in, const Dims& dims) {
  const uint32_t out = f.tensor(half, dims);
  f.node(op, std::move(in), {out});
  return out;
}
void finish(FragmentBuilder& f, uint32_t op, std::vector<uint32_t> in, const Dims& dims) {
  f.node(op, std::move(in), {f.output(half, dims)});
}

void sum_rows(FragmentBuilder& f, uint32_t x, int64_t axis) {
  f.node(TN_OP_sum, {x}, {f.output(half, {axis == 0 ? 16 : 8})})
      .integers("axes", {axis})
      .integer("keepdims", 0);
}

uint32_t product(FragmentBuilder& f) {
  const uint32_t out = f.tensor(half, rows);
  matmul(f, f.input(half, {8, 32}), f.input(half, {32, 16}), out);
  return out;
}
uint32_t biased_product(FragmentBuilder& f) {
  return go_on(f, TN_OP_add, {product(f), f.input(half, row)}, rows);
}

void drop(FragmentBuilder& f, uint32_t x, uint32_t y) {
  f.node(TN_OP_dropout, {x, f.input(TN_DTYPE_u64, {}), f.input(TN_DTYPE_u64, {})}, {y})
      .integer("key", 0)
      .real("rate", 0.125);
}

// Depthwise: each channel has a filter of its own.
FragmentBuilder::Node& slide(FragmentBuilder::Node& node) {
  return node.integers("dilation", {1, 1})
      .integer("groups", 4)
      .integers("pad", {1, 1, 1, 1})
      .integers("stride", {1, 1});
}

uint32_t batch_norm(FragmentBuilder& f) {
  std::vector<uint32_t> in{f.input(half, images)};
  for (int i = 0; i < 4; ++i) in.push_back(f.input(single, {4}));
  std::vector<uint32_t> out{f.tensor(half, images)};
  for (int i = 0; i < 4; ++i) out.push_back(f.output(single, {4}));
  f.node(TN_OP_batch_norm_train, in, out).real("epsilon", 1e-5).real("momentum", 0.9);
  return out[0];
}

void layer_norm(FragmentBuilder& f, uint32_t x) {
  f.node(TN_OP_layer_norm, {x, f.input(single, row), f.input(single, row)},
         {f.output(half, rows), f.output(single, {8}), f.output(single, {8})})
      .integer("axes", 1)
      .real("epsilon", 1e-5);
}

uint32_t kept_sum(FragmentBuilder& f, uint32_t x) {
  const uint32_t out = f.output(half, rows);
  f.node(TN_OP_add, {x, f.input(half, rows)}, {out});
  return out;
}

void attention(FragmentBuilder& f, bool gradient) {
  const Dims heads{1, 2, 8, 16};
  std::vector<uint32_t> in, out{f.output(half, heads)};
  for (int i = 0; i < (gradient ? 5 : 3); ++i) in.push_back(f.input(half, heads));
  if (gradient)
    in.push_back(f.input(single, {1, 2, 8}));
  else
    out.push_back(f.output(single, {1, 2, 8}));
  for (int i = 0; gradient && i < 2; ++i) out.push_back(f.output(half, heads));
  f.node(gradient ? TN_OP_attention_grad : TN_OP_attention, in, out).integer("causal", 1).real("scale", 0.25);
}

// A step of two parameters of two types: gradients checked and unscaled on the way in, weights decayed.
void optimizers(FragmentBuilder& f) {
  const Dims small{24}, large{8, 16};
  const uint32_t found = f.output(single, {}), first = f.tensor(half, small),
                 second = f.tensor(single, large);
  f.node(TN_OP_check_finite_and_unscale, {f.input(single, {}), f.input(half, small), f.input(single, large)},
         {found, first, second});
  const uint32_t rate = f.input(single, {});
  f.node(TN_OP_sgd, {f.input(half, small), first, rate, f.input(single, small), found},
         {f.output(half, small), f.output(single, small), TN_ABSENT})
      .real("weight_decay", 0.01);
  f.node(TN_OP_adamw,
         {f.input(single, large), second, f.input(single, large), f.input(single, large), rate,
          f.input(single, {}), TN_ABSENT, found},
         {f.output(single, large), f.output(single, large), f.output(single, large), TN_ABSENT})
      .real("beta1", 0.9)
      .real("beta2", 0.99)
      .real("epsilon", 1e-6)
      .real("weight_decay", 0.01);
}

const Row table[] = {
    {"elementwise, broadcast, with a sum behind",
     [](FragmentBuilder& f) {
       const uint32_t sum = go_on(f, TN_OP_add, {f.input(half, rows), f.input(half, row)}, rows);
       sum_rows(f, go_on(f, TN_OP_tanh, {sum}, rows), 1);
     },
     ""},
    {"addition and activation",
     [](FragmentBuilder& f) {
       finish(f, TN_OP_relu, {go_on(f, TN_OP_add, {f.input(half, rows), f.input(half, row)}, rows)}, rows);
     },
     ""},
    {"addition and activation, backward",
     [](FragmentBuilder& f) {
       const uint32_t dx = f.output(half, rows);
       f.node(TN_OP_relu_grad, {f.input(half, rows), f.input(half, rows)}, {dx});
       sum_rows(f, dx, 0);
     },
     ""},
    {"batch norm and activation", [](FragmentBuilder& f) { finish(f, TN_OP_relu, {batch_norm(f)}, images); },
     ""},
    {"batch norm, addition and activation",
     [](FragmentBuilder& f) {
       const uint32_t y = batch_norm(f);
       finish(f, TN_OP_relu, {go_on(f, TN_OP_add, {y, f.input(half, images)}, images)}, images);
     },
     ""},
    {"batch norm, addition and activation, backward",
     [](FragmentBuilder& f) {
       const uint32_t dy = f.output(half, images);
       f.node(TN_OP_relu_grad, {f.input(half, images), f.input(half, images)}, {dy});
       std::vector<uint32_t> in{dy, f.input(half, images)};
       for (int i = 0; i < 3; ++i) in.push_back(f.input(single, {4}));
       f.node(TN_OP_batch_norm_grad, in,
              {f.output(half, images), f.output(single, {4}), f.output(single, {4})});
     },
     ""},
    {"batch norm and relu, backward, of a value that is made again",
     [](FragmentBuilder& f) {
       const uint32_t x = f.input(half, images), dy = f.input(half, images);
       std::vector<uint32_t> channel;
       for (int i = 0; i < 4; ++i) channel.push_back(f.input(single, {4}));
       const uint32_t y = f.tensor(half, images), before = f.tensor(half, images);
       f.node(TN_OP_batch_norm_apply, {x, channel[0], channel[1], channel[2], channel[3]}, {y});
       f.node(TN_OP_relu_grad, {dy, y}, {before});
       f.node(TN_OP_batch_norm_grad, {before, x, channel[0], channel[2], channel[3]},
              {f.output(half, images), f.output(single, {4}), f.output(single, {4})});
     },
     ""},
    {"batch norm of a batch norm",
     [](FragmentBuilder& f) {
       const uint32_t y = batch_norm(f);
       std::vector<uint32_t> in{y};
       for (int i = 0; i < 4; ++i) in.push_back(f.input(single, {4}));
       finish(f, TN_OP_batch_norm_apply, in, images);
     },
     "node 1 (batch_norm_apply): only elementwise nodes go with a batch norm"},
    {"product, bias and relu", [](FragmentBuilder& f) { finish(f, TN_OP_relu, {biased_product(f)}, rows); },
     "node 2 (relu): cuBLASLt's relu makes NaN a 0"},
    {"product, bias and gelu by tanh",
     [](FragmentBuilder& f) {
       f.node(TN_OP_gelu, {biased_product(f)}, {f.output(half, rows)}).integer("tanh", 1);
     },
     ""},
    {"product, bias and gelu by its exact form",
     [](FragmentBuilder& f) {
       f.node(TN_OP_gelu, {biased_product(f)}, {f.output(half, rows)}).integer("tanh", 0);
     },
     "node 2 (gelu): cuBLASLt computes gelu by its tanh form only"},
    {"product, gelu's gradient and bias gradient",
     [](FragmentBuilder& f) {
       const uint32_t dy = product(f), dx = f.output(half, rows);
       f.node(TN_OP_gelu_grad, {dy, f.input(half, rows)}, {dx}).integer("tanh", 1);
       sum_rows(f, dx, 0);
     },
     ""},
    {"product, relu's gradient and bias gradient",
     [](FragmentBuilder& f) {
       const uint32_t dy = product(f), dx = f.output(half, rows);
       f.node(TN_OP_relu_grad, {dy, f.input(half, rows)}, {dx});
       sum_rows(f, dx, 0);
     },
     "node 1 (relu_grad): cuBLASLt takes relu's gradient from a mask of bits, and then takes longer"},
    {"relu and depthwise convolution",
     [](FragmentBuilder& f) {
       const uint32_t x = go_on(f, TN_OP_relu, {f.input(half, images)}, images);
       slide(f.node(TN_OP_conv2d, {x, f.input(half, filters)}, {f.output(half, images)}));
     },
     "node 0 (relu): it makes an operand of a convolution, which reads operands from memory"},
    {"relu and depthwise convolution, backward to the image",
     [](FragmentBuilder& f) {
       const uint32_t dx = f.tensor(half, images);
       slide(f.node(TN_OP_conv2d_grad_data, {f.input(half, images), f.input(half, filters)}, {dx}))
           .integers("input_shape", images);
       finish(f, TN_OP_relu_grad, {dx, f.input(half, images)}, images);
     },
     "node 1 (relu_grad): nothing is computed on a gradient of a convolution"},
    {"relu and depthwise convolution, backward to the filter",
     [](FragmentBuilder& f) {
       const uint32_t x = go_on(f, TN_OP_relu, {f.input(half, images)}, images);
       slide(f.node(TN_OP_conv2d_grad_weight, {x, f.input(half, images)}, {f.output(half, filters)}))
           .integers("weight_shape", filters);
     },
     "node 0 (relu): it makes an operand of a convolution"},
    {"convolution, bias and activation",
     [](FragmentBuilder& f) {
       const uint32_t y = f.tensor(half, images);
       slide(f.node(TN_OP_conv2d, {f.input(half, images), f.input(half, filters)}, {y}));
       finish(f, TN_OP_tanh, {go_on(f, TN_OP_add, {y, f.input(half, channels)}, images)}, images);
     },
     ""},
    {"convolution, bias and silu, channels first",
     [](FragmentBuilder& f) {
       const uint32_t y = f.tensor(half, images);
       slide(f.node(TN_OP_conv2d, {f.input(half, images), f.input(half, filters)}, {y}));
       finish(f, TN_OP_silu, {go_on(f, TN_OP_add, {y, f.input(half, channels)}, images)}, images);
     },
     "node 1 (add): without a bias, or with gelu or silu, cuDNN computes what follows a convolution for "
     "channels last alone"},
    {"convolution, bias and relu",
     [](FragmentBuilder& f) {
       const uint32_t y = f.tensor(half, images);
       slide(f.node(TN_OP_conv2d, {f.input(half, images), f.input(half, filters)}, {y}));
       finish(f, TN_OP_relu, {go_on(f, TN_OP_add, {y, f.input(half, channels)}, images)}, images);
     },
     "node 2 (relu): cuDNN's relu makes NaN a 0"},
    {"attention", [](FragmentBuilder& f) { attention(f, false); }, ""},
    {"attention, backward", [](FragmentBuilder& f) { attention(f, true); }, ""},
    {"feed-forward: product, bias, gelu and dropout",
     [](FragmentBuilder& f) {
       const uint32_t y = f.tensor(half, rows);
       f.node(TN_OP_gelu, {biased_product(f)}, {y}).integer("tanh", 1);
       drop(f, y, f.output(half, rows));
     },
     "node 3 (dropout): a product computes nothing behind its activation"},
    {"feed-forward: product, bias, dropout and residual",
     [](FragmentBuilder& f) {
       const uint32_t y = f.tensor(half, rows);
       drop(f, biased_product(f), y);
       kept_sum(f, y);
     },
     "node 2 (dropout): cuBLASLt draws no numbers"},
    {"layer norm with residual", [](FragmentBuilder& f) { layer_norm(f, kept_sum(f, f.input(half, rows))); },
     ""},
    {"RMS norm with residual",
     [](FragmentBuilder& f) {
       f.node(TN_OP_rms_norm, {kept_sum(f, f.input(half, rows)), f.input(single, row)},
              {f.output(half, rows), f.output(single, {8})})
           .integer("axes", 1)
           .real("epsilon", 1e-6);
     },
     ""},
    {"layer norm with residual, backward",
     [](FragmentBuilder& f) {
       const uint32_t dx = f.tensor(half, rows);
       f.node(TN_OP_layer_norm_grad,
              {f.input(half, rows), f.input(half, rows), f.input(single, row), f.input(single, {8}),
               f.input(single, {8})},
              {dx, f.output(single, row), f.output(single, row)})
           .integer("axes", 1);
       kept_sum(f, dx);
     },
     ""},
    {"dropout, residual and layer norm",
     [](FragmentBuilder& f) {
       const uint32_t y = f.tensor(half, rows);
       drop(f, f.input(half, rows), y);
       layer_norm(f, kept_sum(f, y));
     },
     ""},
    {"softmax and cross-entropy",
     [](FragmentBuilder& f) {
       f.node(TN_OP_cross_entropy, {f.input(half, rows), f.input(TN_DTYPE_i64, {8})},
              {f.output(single, {8}), f.output(single, {8})})
           .integer("ignore_index", -100);
     },
     ""},
    {"softmax and cross-entropy, backward",
     [](FragmentBuilder& f) {
       f.node(TN_OP_cross_entropy_grad,
              {f.input(half, rows), f.input(TN_DTYPE_i64, {8}), f.input(single, {8}), f.input(single, {8})},
              {f.output(half, rows)})
           .integer("ignore_index", -100);
     },
     ""},
    {"all optimizers at once", optimizers, ""},
    {"check_finite_and_unscale",
     [](FragmentBuilder& f) {
       f.node(TN_OP_check_finite_and_unscale,
              {f.input(single, {}), f.input(half, rows), f.input(single, row)},
              {f.output(single, {}), f.output(half, rows), f.output(single, row)});
     },
     ""},
    {"update_loss_scaling",
     [](FragmentBuilder& f) {
       std::vector<uint32_t> in{f.input(single, {})}, out;
       for (int i = 0; i < 3; ++i) in.push_back(f.input(single, {}));
       for (int i = 0; i < 3; ++i) out.push_back(f.output(single, {}));
       f.node(TN_OP_update_loss_scaling, in, out)
           .integer("decr_every_n_nan_or_inf", 2)
           .integer("incr_every_n_steps", 1000)
           .real("decr_ratio", 0.5)
           .real("incr_ratio", 2);
     },
     ""},
};

}  // namespace

TEST_CASE("patterns: each fusion of training is one kernel, or is refused by the node in the way" *
          fake_only) {
  CUDA_DRIVER("");
  CUBLASLT("");
  const World world;
  const Device device = open_device();
  for (const Row& one : table) {
    CAPTURE(std::string(one.name));
    FragmentBuilder f(one.name);
    one.write(f);
    const std::string wanted = one.refusal;
    const tn_support said = supports(device, f.fragment());
    CHECK_MESSAGE(said.verdict == (wanted.empty() ? TN_SUPPORT_NATIVE : TN_SUPPORT_NO), said.reason);
    Kernel kernel;
    const Outcome compiled = try_compile(device, f.fragment(), kernel);
    for (const std::string& words : {std::string(said.reason), compiled.message()})
      CHECK_MESSAGE((wanted.empty() ? words.empty() : words.find(wanted) != std::string::npos), words);
  }
}
