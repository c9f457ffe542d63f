// SPDX-License-Identifier: Apache-2.0
// epilogue_test.cpp: a product with its bias, its residual and its activation as one step, against its nodes one by one.
//
// Invariant: f32 differs by no more than oneDNN's activations may, 2⁻²⁰ of what goes in; halves are rounded once instead of
// once a node, so they differ by three roundings at most.
#include "onednn.hpp"
#include "tensors.hpp"

using namespace cpu_test;

namespace {

struct Act {
  uint32_t op;
  bool tanh;
};
const std::vector<Act> acts = {{TN_OP_identity, false}, {TN_OP_relu, false},    {TN_OP_gelu, false},
                               {TN_OP_gelu, true},      {TN_OP_sigmoid, false}, {TN_OP_tanh, false},
                               {TN_OP_silu, false}};

struct Product {
  uint32_t op;
  Dims a, b, c, bias;
  bool last = false;  // channels of images lie last
};
const std::vector<Product> products = {
    {TN_OP_matmul, {17, 33}, {33, 20}, {17, 20}, {20}},
    {TN_OP_matmul, {3, 5, 24}, {24, 16}, {3, 5, 16}, {1, 16}},
    {TN_OP_matmul, {2, 3, 5, 8}, {2, 3, 8, 12}, {2, 3, 5, 12}, {12}},
    {TN_OP_conv2d, {2, 16, 9, 7}, {24, 16, 3, 3}, {2, 24, 9, 7}, {24, 1, 1}},
    {TN_OP_conv2d, {2, 16, 9, 7}, {24, 16, 3, 3}, {2, 24, 9, 7}, {1, 24, 1, 1}, true},
    {TN_OP_conv2d, {1, 6, 8, 8}, {6, 1, 3, 3}, {1, 6, 8, 8}, {6, 1, 1}},
};

Dims strides_of(const Product& p, const Dims& dims) {
  return p.last ? Dims{dims[1] * dims[2] * dims[3], 1, dims[3] * dims[1], dims[1]} : Dims{};
}

void add_product(FragmentBuilder& f, const Product& p, uint32_t a, uint32_t b, uint32_t c) {
  if (p.op == TN_OP_matmul) {
    f.node(p.op, {a, b}, {c}).integer("transpose_a", 0).integer("transpose_b", 0);
    return;
  }
  f.node(p.op, {a, b}, {c})
      .integers("dilation", {1, 1})
      .integer("groups", p.a[1] / p.b[1])
      .integers("pad", {1, 1, 1, 1})
      .integers("stride", {1, 1});
}
void add_act(FragmentBuilder& f, const Act& act, uint32_t x, uint32_t y) {
  auto& node = f.node(act.op, {x}, {y});
  if (act.op == TN_OP_gelu) node.integer("tanh", act.tanh);
}

struct Operands {
  Tensor a, b, bias, residual;
};

Operands draw(const Product& p, uint32_t dtype, Random& random) {
  Operands out{Tensor(dtype, p.a, strides_of(p, p.a)), Tensor(dtype, p.b), Tensor(dtype, p.bias),
               Tensor(dtype, p.c, strides_of(p, p.c))};
  for (Tensor* one : {&out.a, &out.b, &out.bias, &out.residual}) {
    for_each(one->dims, [&](const Dims& at) {
      one->set(at, rounded(static_cast<Number>(random() % 2001) / 1000 - 1, dtype));
    });
  }
  return out;
}

// The chain as one fragment.
struct Chain {
  FragmentBuilder f{"chain"};
  std::vector<const Tensor*> inputs;

  Chain(const Product& p, uint32_t dtype, const Operands& given, bool residual, const Act& act) {
    const auto input = [&](const Tensor& tensor) {
      inputs.push_back(&tensor);
      return f.input(tensor.dtype, tensor.dims, tensor.strides);
    };
    const uint32_t a = input(given.a), b = input(given.b), bias = input(given.bias);
    uint32_t value = f.tensor(dtype, p.c);
    add_product(f, p, a, b, value);
    const bool active = act.op != TN_OP_identity;
    const auto next = [&](bool is_last) {
      return is_last ? f.output(dtype, p.c, strides_of(p, p.c)) : f.tensor(dtype, p.c);
    };
    uint32_t sum = next(!residual && !active);
    f.node(TN_OP_add, {value, bias}, {sum});
    if (residual) {
      const uint32_t more = input(given.residual);
      value = next(!active);
      f.node(TN_OP_add, {more, sum}, {value});  // the other way round: addition commutes
      sum = value;
    }
    if (active) add_act(f, act, sum, next(true));
  }
};

Tensor one_by_one(Bench& bench, const Product& p, uint32_t dtype, const Operands& given, bool residual,
                  const Act& act) {
  const auto alone = [&](const std::vector<const Tensor*>& inputs, auto&& add) {
    FragmentBuilder f;
    std::vector<uint32_t> in;
    for (const Tensor* one : inputs) in.push_back(f.input(one->dtype, one->dims, one->strides));
    Tensor result(dtype, p.c, strides_of(p, p.c));
    add(f, in, f.output(dtype, p.c, result.strides));
    bench.run(compile(bench.device, f.fragment()), inputs, {&result});
    return result;
  };
  const auto plus = [](FragmentBuilder& f, auto& in, uint32_t out) { f.node(TN_OP_add, in, {out}); };
  Tensor value = alone({&given.a, &given.b}, [&](FragmentBuilder& f, auto& in, uint32_t out) {
    add_product(f, p, in[0], in[1], out);
  });
  value = alone({&value, &given.bias}, plus);
  if (residual) value = alone({&value, &given.residual}, plus);
  if (act.op == TN_OP_identity) return value;
  return alone({&value}, [&](FragmentBuilder& f, auto& in, uint32_t out) { add_act(f, act, in[0], out); });
}

}  // namespace

TEST_CASE(
    "epilogue: a product, its bias, its residual and its activation equal their nodes within the bound") {
  Bench bench;
  if (!has_onednn(bench.device)) TENON_SKIP("onednn", no_onednn);
  Random random(tenon::test::seed());
  for (const uint32_t dtype : {TN_DTYPE_f32, TN_DTYPE_bf16, TN_DTYPE_f16}) {
    for (const Product& p : products) {
      for (const Act& act : acts) {
        for (const bool residual : {false, true}) {
          CAPTURE(label(p.op, dtype, p.a));
          CAPTURE(label(act.op, dtype, p.c));
          CAPTURE(residual);
          const Operands given = draw(p, dtype, random);
          Chain chain(p, dtype, given, residual, act);
          const tn_support said = supports(bench.device, chain.f.fragment());
          // oneDNN's sigmoid behind some convolutions makes 0 of a NaN, so there it is a step of its own.
          const bool apart = p.op == TN_OP_conv2d && act.op == TN_OP_sigmoid;
          CHECK(said.verdict == (apart                   ? TN_SUPPORT_EMULATED
                                 : dtype == TN_DTYPE_f32 ? TN_SUPPORT_NATIVE
                                                         : TN_SUPPORT_CONVERTED));
          if (is_half(dtype) && !apart)
            CHECK(std::string(said.reason).find("rounded once, after the last") != std::string::npos);
          Tensor got(dtype, p.c, strides_of(p, p.c));
          bench.run(compile(bench.device, chain.f.fragment()), chain.inputs, {&got});
          const Tensor expected = one_by_one(bench, p, dtype, given, residual, act);
          // No intermediate is above 64 here; activations grow no faster than what goes in.
          const Number bound = is_half(dtype) ? 3 * 64 * ulp(1, dtype) : 64 * 0x1p-20L;
          Number most = 0;
          for_each(p.c,
                   [&](const Dims& at) { most = std::max(most, std::fabs(got.at(at) - expected.at(at))); });
          CHECK(double(most) <= double(bound));
        }
      }
    }
  }
}

TEST_CASE("epilogue: relu keeps a NaN, and what it leaves of a negative is a zero without sign") {
  Bench bench;
  if (!has_onednn(bench.device)) TENON_SKIP("onednn", no_onednn);
  for (const Product& p : products) {
    CAPTURE(label(p.op, TN_DTYPE_f32, p.a));
    Random random(tenon::test::seed());
    Operands given = draw(p, TN_DTYPE_f32, random);
    const Number nan = std::numeric_limits<Number>::quiet_NaN();
    for_each(given.bias.dims, [&](const Dims& at) { given.bias.set(at, -1000); });
    given.bias.set(Dims(p.bias.size(), 0), nan);
    Chain chain(p, TN_DTYPE_f32, given, false, {TN_OP_relu, false});
    Tensor got(TN_DTYPE_f32, p.c, strides_of(p, p.c));
    bench.run(compile(bench.device, chain.f.fragment()), chain.inputs, {&got});
    const size_t axis = p.op == TN_OP_matmul ? p.c.size() - 1 : 1;
    for_each(p.c, [&](const Dims& at) {
      const Number y = got.at(at);
      const bool good = at[axis] == 0 ? std::isnan(y) : y == 0 && !std::signbit(y);
      CHECK(good);
    });
  }
}

TEST_CASE(
    "epilogue: a convolution of channels that lie apart, and what follows it, is no product over copied "
    "windows") {
  Bench bench;
  if (!has_onednn(bench.device)) TENON_SKIP("onednn", no_onednn);
  const Product p{TN_OP_conv2d, {2, 16, 9, 7}, {24, 16, 3, 3}, {2, 24, 9, 7}, {24, 1, 1}};
  Random random(tenon::test::seed());
  for (const uint32_t dtype : {TN_DTYPE_f32, TN_DTYPE_bf16}) {
    const Operands given = draw(p, dtype, random);
    for (const bool residual : {false, true}) {
      for (const uint32_t act : {TN_OP_identity, TN_OP_relu}) {
        Chain chain(p, dtype, given, residual, {act, false});
        const std::string engine = info(compile(bench.device, chain.f.fragment())).engine;
        CAPTURE(engine);
        CHECK(engine.find("gemm") == std::string::npos);
      }
    }
  }
}

TEST_CASE("epilogue: in f64 a product and what follows it stay apart, and the reason says so") {
  Bench bench;
  FragmentBuilder f;
  const uint32_t a = f.input(TN_DTYPE_f64, {4, 4}), b = f.input(TN_DTYPE_f64, {4, 4}),
                 c = f.tensor(TN_DTYPE_f64, {4, 4});
  f.node(TN_OP_matmul, {a, b}, {c}).integer("transpose_a", 0).integer("transpose_b", 0);
  f.node(TN_OP_relu, {c}, {f.output(TN_DTYPE_f64, {4, 4})});
  const tn_support said = supports(bench.device, f.fragment());
  CHECK(said.verdict == TN_SUPPORT_EMULATED);
  CHECK(std::string(said.reason).find("node 1 (relu)") != std::string::npos);
  CHECK(std::string(said.reason).find("a product of f64 is not made a few rows at a time") !=
        std::string::npos);
}

TEST_CASE("patterns: each is told by name, and reads what stands before it") {
  Bench bench;
  tn_pattern_list list{};
  must([&](tn_error* e) { return plugin().kernel->patterns(bench.device, &list, e); });
  std::vector<std::string> names;
  for (const tn_pattern& pattern : std::span(list.items, list.count)) {
    names.push_back(pattern.name);
    for (uint32_t i = 0; i < pattern.step_count; ++i) {
      for (const uint32_t operand : std::span(pattern.steps[i].operands, pattern.steps[i].operand_count))
        CHECK(((operand & TN_PATTERN_INPUT) != 0 || operand < i));
    }
  }
  std::vector<std::string> expected = {"bn_act",
                                       "bn_add_act",
                                       "act_bn_backward",
                                       "bn_act_backward",
                                       "add_norm",
                                       "norm_backward_add",
                                       "dropout_add_norm",
                                       "softmax_row",
                                       "softmax_row_backward",
                                       "loss_row",
                                       "loss_row_backward",
                                       "relu_depthwise_conv",
                                       "relu_depthwise_conv_backward",
                                       "gemm_epilogue_backward"};
  if (has_onednn(bench.device))
    expected.insert(expected.end(),
                    {"gemm_epilogue", "gemm_norm", "gemm_dropout", "gemm_softmax", "conv_bias_act"});
  CHECK(names == expected);
}
