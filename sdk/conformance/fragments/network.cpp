// SPDX-License-Identifier: Apache-2.0
// network.cpp: see network.hpp.
#include "conformance/fragments/network.hpp"

#include "conformance/ops/draw.hpp"

#include <algorithm>
#include <string_view>

namespace tenon::conform {

namespace {

using Dims = std::vector<int64_t>;
using Attributes = std::vector<AttributeValue>;

AttributeValue integer(std::string name, int64_t value) {
  return {.name = std::move(name), .kind = TN_ATTRIBUTE_I64, .integer = value};
}
AttributeValue integers(std::string name, std::vector<int64_t> value) {
  return {.name = std::move(name), .kind = TN_ATTRIBUTE_I64S, .integers = std::move(value)};
}
AttributeValue real(std::string name, double value) {
  return {.name = std::move(name), .kind = TN_ATTRIBUTE_F64, .real = value};
}

// A graph of f32, node after node; attributes are given in the order of their names.
class Network {
 public:
  explicit Network(Choices& choices) : choices_(choices) {}

  uint32_t input(Dims dims, Values values = Values::unit) {
    return group_.add_input({.dtype = TN_DTYPE_f32, .dims = std::move(dims), .values = values});
  }
  uint32_t labels(Dims dims, int64_t classes) {
    return group_.add_input(
        {.dtype = TN_DTYPE_i64, .dims = std::move(dims), .values = Values::index, .bound = classes});
  }
  std::vector<uint32_t> nodes(std::string_view op, std::vector<uint32_t> in, const std::vector<Dims>& out,
                              Attributes attributes = {}) {
    GroupNode node{.row = find_row(op), .subject = TN_DTYPE_f32, .in = std::move(in)};
    node.attributes = std::move(attributes);
    for (const Dims& dims : out) node.out.push_back(group_.add({.dtype = TN_DTYPE_f32, .dims = dims}));
    group_.nodes.push_back(node);
    return node.out;
  }
  uint32_t node(std::string_view op, std::vector<uint32_t> in, Dims out, Attributes attributes = {}) {
    return nodes(op, std::move(in), {std::move(out)}, std::move(attributes))[0];
  }
  // Sizes of what a value holds.
  const Dims& dims(uint32_t value) const { return group_.operand(value).dims; }
  uint32_t matmul(uint32_t a, uint32_t b, Dims out, bool transpose_a = false, bool transpose_b = false) {
    return node("matmul", {a, b}, std::move(out),
                {integer("transpose_a", transpose_a), integer("transpose_b", transpose_b)});
  }
  // A matrix whose products of `terms` terms stay near 1.
  uint32_t weights(int64_t rows, int64_t columns, int64_t terms) {
    const uint32_t raw = input({rows, columns});
    return node(
        "scale", {raw}, {rows, columns},
        {real("bias", -0.5 / static_cast<double>(terms)), real("scale", 1.0 / static_cast<double>(terms))});
  }
  void give(uint32_t value) { group_.outputs.push_back(value); }
  Group finish() {
    group_.value_seed = choices_.below(UINT64_MAX);
    return std::move(group_);
  }
  Group& group() noexcept { return group_; }
  Choices& choices() noexcept { return choices_; }

 private:
  Choices& choices_;
  Group group_{};
};

// An activation and its gradient, which reads what it gave or what it was given.
struct Activation {
  const char *forward, *backward;
  bool reads_result;
};
constexpr Activation activations[] = {{"relu", "relu_grad", true},
                                      {"tanh", "tanh_grad", true},
                                      {"sigmoid", "sigmoid_grad", true},
                                      {"gelu", "gelu_grad", false},
                                      {"silu", "silu_grad", false}};

Attributes attributes_of(const Activation& activation) {
  return std::string_view(activation.forward) == "gelu" ? Attributes{integer("tanh", 0)} : Attributes{};
}

// One step of training, written as it is enqueued.
class TrainingStep {
 public:
  TrainingStep(Choices& choices, uint64_t budget) : n_(choices), choices_(choices) {
    const auto side = static_cast<int64_t>(budget > 1000 ? 40 : 10);
    rows_ = choices.between(2, side);
    in_ = choices.between(1, side);
    hidden_ = choices.between(2, side);
    classes_ = choices.between(2, 12);
    activation_ = activations[choices.below(std::size(activations))];
    optimizer_ = find_row(choices.pick<const char*>({"sgd", "momentum", "adam", "adamw"}));
  }

  std::optional<Group> run() {
    forward();
    backward();
    const uint32_t parameters[] = {w1_, b1_, w2_, b2_}, gradients[] = {dw1_, db1_, dw2_, db2_};
    for (size_t i = 0; i < 4; ++i) {
      if (!update(parameters[i], gradients[i])) return {};
    }
    return n_.finish();
  }

 private:
  void forward() {
    x_ = n_.input({rows_, in_});
    w1_ = n_.weights(in_, hidden_, in_);
    b1_ = n_.input({hidden_});
    w2_ = n_.weights(hidden_, classes_, hidden_);
    b2_ = n_.input({classes_});
    labels_ = n_.labels({rows_}, classes_);
    sum_ = n_.node("add", {n_.matmul(x_, w1_, {rows_, hidden_}), b1_}, {rows_, hidden_});
    h_ = n_.node(activation_.forward, {sum_}, {rows_, hidden_}, attributes_of(activation_));
    z_ = n_.node("add", {n_.matmul(h_, w2_, {rows_, classes_}), b2_}, {rows_, classes_});
    const auto loss =
        n_.nodes("cross_entropy", {z_, labels_}, {{rows_}, {rows_}}, {integer("ignore_index", -100)});
    lse_ = loss[1];
    n_.give(n_.node("mean", {loss[0]}, {}, {integers("axes", {0}), integer("keepdims", 0)}));
  }

  void backward() {
    AttributeValue type{.name = "dtype", .kind = TN_ATTRIBUTE_DTYPE, .integer = TN_DTYPE_f32};
    const uint32_t dloss = n_.node(
        "constant", {}, {rows_},
        {std::move(type), integers("shape", {rows_}), real("value", 1.0 / static_cast<double>(rows_))});
    const uint32_t dz = n_.node("cross_entropy_grad", {z_, labels_, lse_, dloss}, {rows_, classes_},
                                {integer("ignore_index", -100)});
    db2_ = over_rows(dz, classes_);
    dw2_ = n_.matmul(h_, dz, {hidden_, classes_}, true, false);
    const uint32_t dh = n_.matmul(dz, w2_, {rows_, hidden_}, false, true);
    const uint32_t dsum = n_.node(activation_.backward, {dh, activation_.reads_result ? h_ : sum_},
                                  {rows_, hidden_}, attributes_of(activation_));
    db1_ = over_rows(dsum, hidden_);
    dw1_ = n_.matmul(x_, dsum, {in_, hidden_}, true, false);
  }
  uint32_t over_rows(uint32_t value, int64_t width) {
    return n_.node("sum", {value}, {width}, {integers("axes", {0}), integer("keepdims", 0)});
  }

  // False where the draw gives other dims than the parameter has.
  bool update(uint32_t parameter, uint32_t gradient) {
    const Dims dims = n_.dims(parameter);
    Trial trial = draw_trial_around(*optimizer_, TN_DTYPE_f32, Form::dense, 1'000'000, choices_, 0, dims);
    if (trial.inputs[0].dims != dims || trial.inputs[1].dims != dims) return false;
    GroupNode node{.row = optimizer_, .subject = TN_DTYPE_f32, .in = {parameter, gradient}};
    node.attributes = trial.attributes;
    for (size_t at = 2; at < trial.inputs.size(); ++at) {
      trial.inputs[at].repeats_first = false;
      node.in.push_back(trial.inputs[at].absent ? TN_ABSENT : n_.group().add_input(trial.inputs[at]));
    }
    for (const Operand& output : trial.outputs) {
      node.out.push_back(output.absent ? TN_ABSENT : n_.group().add(output));
      if (!output.absent) n_.give(node.out.back());
    }
    n_.group().nodes.push_back(std::move(node));
    return true;
  }

  Network n_;
  Choices& choices_;
  int64_t rows_ = 0, in_ = 0, hidden_ = 0, classes_ = 0;
  Activation activation_{};
  const Row* optimizer_ = nullptr;
  uint32_t x_ = 0, w1_ = 0, b1_ = 0, w2_ = 0, b2_ = 0, labels_ = 0, sum_ = 0, h_ = 0, z_ = 0, lse_ = 0;
  uint32_t dw1_ = 0, db1_ = 0, dw2_ = 0, db2_ = 0;
};

}  // namespace

std::optional<Group> draw_training_step(Choices& choices, uint64_t budget) {
  return TrainingStep(choices, budget).run();
}

std::optional<Group> draw_image_network(Choices& choices, uint64_t budget) {
  Network n(choices);
  const int64_t most = budget > 1000 ? 12 : 6;
  const int64_t batch = choices.between(2, 4), in = choices.between(1, 3), out = choices.between(1, most),
                side = 2 * choices.between(2, most), classes = choices.between(2, 9);
  const Dims image = {batch, out, side, side};
  const uint32_t x = n.input({batch, in, side, side});
  const uint32_t w = n.node("reshape", {n.weights(out, in * 9, in * 9)}, {out, in, 3, 3},
                            {integers("shape", {out, in, 3, 3})});
  const uint32_t y = n.node("conv2d", {x, w}, image,
                            {integers("dilation", {1, 1}), integer("groups", 1),
                             integers("pad", {1, 1, 1, 1}), integers("stride", {1, 1})});
  const auto channel = [&](Values values) { return n.input({out}, values); };
  const auto normal = n.nodes(
      "batch_norm_train",
      {y, channel(Values::unit), channel(Values::unit), channel(Values::unit), channel(Values::positive)},
      {image, {out}, {out}, {out}, {out}}, {real("epsilon", 1e-5), real("momentum", 0.9)});
  const Activation& activation = activations[choices.below(std::size(activations))];
  const uint32_t active = n.node(activation.forward, {normal[0]}, image, attributes_of(activation));
  const bool greatest = choices.chance(2);
  const Dims half = {batch, out, side / 2, side / 2};
  Attributes window = {integers("kernel", {2, 2}), integers("pad", {0, 0, 0, 0}), integers("stride", {2, 2})};
  if (!greatest) window.insert(window.begin(), integer("count_pad", 0));
  const uint32_t pooled = n.node(greatest ? "max_pool" : "avg_pool", {active}, half, window);
  const int64_t width = out * (side / 2) * (side / 2);
  const uint32_t flat = n.node("reshape", {pooled}, {batch, width}, {integers("shape", {batch, width})});
  const uint32_t scores = n.matmul(flat, n.weights(width, classes, width), {batch, classes});
  n.give(n.node("softmax", {scores}, {batch, classes}, {integer("axis", -1)}));
  n.give(normal[3]);
  n.give(normal[4]);
  return n.finish();
}

std::optional<Group> draw_decoder_block(Choices& choices, uint64_t budget) {
  Network n(choices);
  const int64_t most = budget > 1000 ? 10 : 5;
  const int64_t batch = choices.between(1, 2), heads = choices.between(1, 3),
                length = choices.between(2, most), head = choices.between(1, most),
                words = choices.between(2, 30), wide = choices.between(2, 2 * most);
  const int64_t width = heads * head;
  const Dims rows = {batch, length, width}, cut = {batch, length, heads, head},
             apart = {batch, heads, length, head}, gate = {batch, length, wide};
  const uint32_t x = n.node("embedding", {n.labels({batch, length}, words), n.input({words, width})}, rows);
  const auto normal =
      n.nodes("layer_norm", {x, n.input({width}), n.input({width})}, {rows, {batch, length}, {batch, length}},
              {integer("axes", 1), real("epsilon", 1e-5)});
  const auto projected = [&] {
    const uint32_t all = n.matmul(normal[0], n.weights(width, width, width), rows);
    const uint32_t parts = n.node("reshape", {all}, cut, {integers("shape", cut)});
    return n.node("transpose", {parts}, apart, {integers("order", {0, 2, 1, 3})});
  };
  const uint32_t q = projected(), k = projected(), v = projected();
  const auto seen = n.nodes("attention", {q, k, v}, {apart, {batch, heads, length}},
                            {integer("causal", 1), real("scale", 0.5)});
  const uint32_t back = n.node("transpose", {seen[0]}, cut, {integers("order", {0, 2, 1, 3})});
  const uint32_t joined = n.node("reshape", {back}, rows, {integers("shape", rows)});
  const uint32_t h = n.node("add", {x, n.matmul(joined, n.weights(width, width, width), rows)}, rows);
  const uint32_t up = n.matmul(h, n.weights(width, wide, width), gate),
                 opened = n.node("silu", {n.matmul(h, n.weights(width, wide, width), gate)}, gate),
                 both = n.node("mul", {up, opened}, gate);
  n.give(n.node("add", {h, n.matmul(both, n.weights(wide, width, wide), rows)}, rows));
  return n.finish();
}

}  // namespace tenon::conform
