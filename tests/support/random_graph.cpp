// SPDX-License-Identifier: Apache-2.0
// random_graph.cpp: the steps of which a random graph is made; see random_graph.hpp.
#include "support/random_graph_attention.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace tenon::test {
namespace {

bool is_float(const TensorSpec& spec) { return spec.dtype == f32; }

class Maker : AttentionSteps {
 public:
  Maker(uint64_t seed, const RandomGraphOptions& options) : AttentionSteps(seed), options_(options) {}

  RandomGraph run() && {
    real({between(1, 4), between(1, 5)});
    real({between(1, 5)});
    if (options_.images && chance(2)) real({between(1, 2), between(1, 5), between(2, 4), between(2, 4)});
    for (int i = 0; i < options_.steps; ++i) step();
    if (options_.training && chance(2)) train({late(), late(), late()});
    if (options_.normalised) train({blocks()});
    if (options_.attentive) train({spelled_out()}, false);
    for (int i = between(1, 4); i > 0 || g.outputs().empty(); --i) put(computed());
    if (!g.check().ok()) throw std::logic_error("random_graph: " + std::string(g.check().message()));
    return std::move(made_);
  }

 private:
  // 0.5 or more.
  Value positive(Value value) { return g.scale(g.square(value), 1, 0.5); }
  double positive_limit(Value value) const { return limit(value) * limit(value) + 0.5; }

  void step() {
    using Step = void (Maker::*)();
    static const std::vector<Step> plain = {&Maker::unary,   &Maker::unary,   &Maker::binary, &Maker::binary,
                                            &Maker::binary,  &Maker::careful, &Maker::choose, &Maker::reduce,
                                            &Maker::product, &Maker::product, &Maker::move,   &Maker::move,
                                            &Maker::join,    &Maker::soften,  &Maker::attend, &Maker::rows,
                                            &Maker::narrow,  &Maker::look_up, &Maker::drop};
    static const std::vector<Step> pictures = {&Maker::convolve,  &Maker::convolve, &Maker::convolve,
                                               &Maker::normalise, &Maker::pool,     &Maker::residual};
    const bool picture = options_.images && between(1, 4) == 1;
    (this->*one_of(picture ? pictures : plain))();
  }

  void unary() {
    struct Known {
      Op op;
      double (*limit)(double);
    };
    static const auto same = [](double x) { return x; };
    static const auto one = [](double) { return 1.0; };
    // clang-format off
    static const std::vector<Known> ops = {
        {Op::neg, same}, {Op::abs, same}, {Op::relu, same}, {Op::gelu, same}, {Op::silu, same}, {Op::identity, same},
        {Op::sigmoid, one}, {Op::tanh, one}, {Op::sign, one}, {Op::erf, one}, {Op::sin, one}, {Op::cos, one},
        {Op::floor,  [](double x) { return x + 1; }},
        {Op::square, [](double x) { return x * x; }},
        {Op::exp,    [](double x) { return std::exp(x); }}};
    // clang-format on
    const Value x = any();
    const Known& known = one_of(ops);
    if (known.op == Op::exp && limit(x) > 4) return;
    keep(g.node(known.op, {x})[0], known.limit(limit(x)));
  }

  void binary() {
    const Value x = any(), y = chance(8) ? x : partner(x);
    const double a = limit(x), b = limit(y);
    switch (between(0, 4)) {
      case 0:
        keep(g.add(x, y), a + b);
        break;
      case 1:
        keep(g.sub(x, y), a + b);
        break;
      case 2:
        keep(g.mul(x, y), a * b);
        break;
      case 3:
        keep(g.max(x, y), std::max(a, b));
        break;
      default:
        keep(g.min(x, y), std::max(a, b));
    }
  }

  // What needs a positive operand.
  void careful() {
    const Value x = any(), y = partner(x);
    const double most = positive_limit(x);
    switch (between(0, 5)) {
      case 0:
        keep(g.log(positive(x)), std::max(1.0, std::log(most)));
        break;
      case 1:
        keep(g.sqrt(positive(x)), std::sqrt(most));
        break;
      case 2:
        keep(g.rsqrt(positive(x)), 1.5);
        break;
      case 3:
        keep(g.reciprocal(positive(x)), 2);
        break;
      case 4:
        keep(g.div(y, positive(x)), 2 * limit(y));
        break;
      default:
        keep(g.mod(y, positive(x)), limit(y));
    }
  }

  void choose() {
    const Value x = any(), y = partner(x);
    const double most = std::max(limit(x), limit(y));
    switch (between(0, 3)) {
      case 0:
        keep(g.where(g.greater(x, y), x, y), most);
        break;
      case 1:
        keep(g.cast(g.less_equal(x, y), f32), 1);
        break;
      case 2:
        keep(g.clip(x, g.constant({f32, {}}, -1), g.constant({f32, {}}, chance(4) ? 0x1p20 : 0.5)),
             limit(x) + 1);
        break;
      default:
        keep(g.fma(x, y, x), limit(x) * limit(y) + limit(x));
    }
  }

  void reduce() {
    const Value x = any(1, 4);
    const auto axis = static_cast<int64_t>(axis_of(x));
    const bool kept = chance(2);
    switch (between(0, 3)) {
      case 0:
        keep(g.sum(x, {axis}, kept), limit(x) * static_cast<double>(dims(x)[static_cast<size_t>(axis)]));
        break;
      case 1:
        keep(g.mean(x, {axis}, kept), limit(x));
        break;
      case 2:
        keep(g.reduce_max(x, {axis}, kept), limit(x));
        break;
      default:
        keep(g.reduce_min(x, {-1}, kept), limit(x));
    }
  }

  void product() {
    const Value x = any(2, 4);
    const bool ta = chance(3), tb = chance(3);
    const int64_t inner = dims(x)[rank(x) - (ta ? 2 : 1)], columns = between(1, 5);
    Ints shape = tb ? Ints{columns, inner} : Ints{inner, columns};
    if (rank(x) == 3 && chance(3)) shape.insert(shape.begin(), dims(x)[0]);
    const Value w = weight(shape);
    keep(g.matmul(x, w, {{"transpose_a", int64_t{ta}}, {"transpose_b", int64_t{tb}}}),
         limit(x) * limit(w) * static_cast<double>(inner));
  }

  void move() {
    const Value x = any(1, 4);
    Ints order, none(rank(x), 0), last = dims(x), some = none;
    for (size_t i = 0; i < rank(x); ++i) order.push_back(static_cast<int64_t>(i));
    const auto axis = static_cast<size_t>(axis_of(x));
    std::shuffle(order.begin(), order.end(), random_);
    last[axis] = between(1, static_cast<int>(last[axis]));
    some[axis] = between(0, 2);
    switch (between(0, 4)) {
      case 0:
        keep(g.reshape(x, {-1}), limit(x));
        break;
      case 1:
        keep(g.transpose(x, order), limit(x));
        break;
      case 2:
        keep(g.slice(x, none, last, Ints(rank(x), between(1, 2))), limit(x));
        break;
      case 3:
        keep(g.pad(x, none, some, chance(2) ? 0 : 1), limit(x) + 1);
        break;
      default:
        keep(g.reshape(x, Ints(dims(x).rbegin(), dims(x).rend())), limit(x));
    }
  }

  void join() {
    const Value x = any(1, 4);
    const Value y = chance(2) ? x : real(dims(x));
    const auto axis = static_cast<int64_t>(axis_of(x));
    if (chance(4))
      keep(g.broadcast_to(real({1, dims(x)[0]}), {2, dims(x)[0]}), 1.5);
    else
      keep(g.concat({x, y}, axis), std::max(limit(x), limit(y)));
  }

  void soften() {
    const Value x = any(2, 2);
    const auto axis = static_cast<int64_t>(axis_of(x));
    const double most = 2 * limit(x) + 4;
    switch (between(0, 2)) {
      case 0:
        keep(g.softmax(x, {{"axis", axis}}), 1);
        break;
      case 1:
        keep(g.log_softmax(x, {{"axis", axis}}), most);
        break;
      default:
        keep(g.cross_entropy(x, index({dims(x)[0]}, dims(x)[1]))[0], most);
    }
  }

  // Rows look at keys that are parameters, maybe in two heads, maybe under a mask; never at none of them.
  void attend() {
    const Value x = any(2, 3);
    const int64_t depth = dims(x).back();
    int64_t length = 1;
    for (size_t i = 0; i + 1 < rank(x); ++i) length *= dims(x)[i];
    const int64_t heads = length % 2 == 0 && chance(2) ? 2 : 1, keys = between(1, 5);
    const Value values = weight({1, heads, keys, depth});
    std::vector<Value> in{g.reshape(x, {1, heads, length / heads, depth}), weight({1, heads, keys, depth}),
                          values};
    if (chance(3)) in.push_back(weight({1, heads, length / heads, keys}));
    const std::vector<Attribute> how{{"causal", static_cast<int64_t>(keys >= length / heads && chance(2))},
                                     {"scale", 0.25}};
    keep(g.reshape(g.node(Op::attention, in, how)[0], dims(x)), limit(values));
  }

  void rows() {
    const Value x = any(2, 3);
    const Ints row{dims(x).back()};
    if (chance(2))
      keep(g.layer_norm(x, weight(row), weight(row))[0], 8);
    else
      keep(g.rms_norm(x, weight(row))[0], 8);
  }

  // A stretch that the author wanted in a half type already.
  void narrow() {
    const Value x = any();
    const DType half = chance(2) ? f16 : bf16;
    Value inside = g.cast(x, half);
    if (chance(2)) inside = g.tanh(inside);
    keep(g.cast(inside, f32), limit(x) + 1);
  }

  void look_up() {
    const Value x = any(2, 2);
    if (chance(2)) {
      keep(g.embedding(g.argmax(x, {1}), weight({dims(x)[1], between(1, 4)})), 1.5);
    } else {
      keep(g.one_hot(index({between(1, 4)}, 3), {{"classes", int64_t{3}}, {"dtype", f32}}), 1);
    }
  }

  void drop() {
    const Value x = any();
    keep(g.dropout(x, seed(), seed(), {{"rate", 0.5}, {"key", int64_t{between(0, 9)}}}), 2 * limit(x));
  }

  void convolve() {
    const Value x = image();
    const int64_t channels = dims(x)[1], kernel = between(1, 2);
    const bool depthwise = channels > 1 && chance(5);
    const int64_t filters = depthwise ? channels * between(1, 2) : between(1, 5);
    const Value w = weight({filters, depthwise ? 1 : channels, kernel, kernel});
    const int64_t pad = between(0, 1);
    keep(g.conv2d(x, w, {{"groups", depthwise ? channels : 1}, {"pad", Ints{pad, pad, pad, pad}}}),
         limit(x) * limit(w) * static_cast<double>(channels * kernel * kernel));
  }

  void normalise() {
    const Value x = image();
    const Ints channel{dims(x)[1]};
    if (chance(3)) {
      keep(g.batch_norm_infer(x, weight(channel), weight(channel), weight(channel), filled(channel, 1)),
           2 * limit(x) + 4);
      return;
    }
    const Value mean = filled(channel, 0), var = filled(channel, 1);
    const auto made = g.batch_norm_train(x, weight(channel), weight(channel), mean, var);
    keep(made[0], 24);
    if (chance(2)) put(made[3]);
    if (chance(2)) put(made[4]);
  }

  void pool() {
    const Value x = image();
    const Graph::Attributes window = {{"kernel", Ints{2, 2}}, {"stride", Ints{between(1, 2), 1}}};
    switch (between(0, 2)) {
      case 0:
        keep(g.max_pool(x, window), limit(x));
        break;
      case 1:
        keep(g.avg_pool(x, window), limit(x));
        break;
      default:
        keep(g.global_pool(x), limit(x));
    }
  }

  // A block with a way around it.
  void residual() {
    const Value x = image();
    const Value w = weight({dims(x)[1], dims(x)[1], 1, 1});
    const double most = limit(x) * limit(w) * static_cast<double>(dims(x)[1]);
    const Value y = g.relu(g.conv2d(x, w));
    keep(g.add(y, x), most + limit(x));
  }

  // Batch norms and relus, one behind the other.
  Value blocks() {
    Value x = real({between(1, 2), between(1, 4), 3, 3});
    for (int i = between(1, 3); i > 0; --i) {
      const Ints channel{dims(x)[1]};
      const std::vector<double> ones(static_cast<size_t>(channel[0]), 1);
      const Value running = leaf({f32, channel}, ones, Graph::Role::input),
                  h = g.mul(x, weight({channel[0], 1, 1}));
      x = g.relu(g.batch_norm_train(h, weight(channel), weight(channel), running, running)[0]);
    }
    return keep(x, 24);
  }

  // Gradients of a few means, and what becomes of them: updates, unless they all go out.
  void train(const std::vector<Value>& of, bool updates = true) {
    Value loss{};
    for (const Value value : of) {
      Ints axes;
      for (size_t axis = 0; axis < rank(value); ++axis) axes.push_back(static_cast<int64_t>(axis));
      const Value mean = g.mean(value, axes);
      loss = loss.index == TN_ABSENT ? mean : g.add(loss, mean);
    }
    std::vector<Value> params;
    for (uint32_t i = 0; i < g.values().size(); ++i) {
      const Graph::ValueInfo& info = g.values()[i];
      if (info.role == Graph::Role::param && is_float(info.spec) && !info.users.empty() && !chance(3))
        params.push_back(g.value(i));
    }
    auto gradients = g.gradients(loss, params);
    if (!gradients.ok()) return;  // a step without a rule
    put(loss);
    if (updates && !params.empty() && chance(3)) unscale(*gradients);
    for (size_t i = 0; i < params.size(); ++i) {
      if (!updates || chance(3))
        put((*gradients)[i]);
      else
        update(params[i], (*gradients)[i]);
    }
  }

  void unscale(std::vector<Value>& gradients) {
    std::vector<Value> in{filled({}, 4)};
    in.insert(in.end(), gradients.begin(), gradients.end());
    const std::vector<Value> out = g.check_finite_and_unscale(in);
    const auto state = g.update_loss_scaling(out[0], in[0], filled({}, 0), filled({}, 0));
    for (const Value value : state) put(value);
    gradients.assign(out.begin() + 1, out.end());
  }

  void update(Value w, Value gradient) {
    const Value rate = leaf({f32, {}}, {0.125}, Graph::Role::input);
    const auto state = [&] { return filled(dims(w), 0); };
    switch (between(0, 2)) {
      case 0:
        put(g.sgd(w, gradient, rate)[0]);
        break;
      case 1:
        for (const Value value : g.momentum(w, gradient, state(), rate)) put(value);
        break;
      default:
        for (const Value value : g.adam(w, gradient, state(), state(), rate, filled({}, 1))) put(value);
    }
  }

  Value computed() {
    std::vector<Value> all;
    for (uint32_t i = 0; i < g.values().size(); ++i) {
      if (g.values()[i].role == Graph::Role::computed) all.push_back(g.value(i));
    }
    return all.empty() ? g.tanh(any()) : one_of(all);
  }

  RandomGraphOptions options_;
};

}  // namespace

RandomGraph random_graph(uint64_t seed, const RandomGraphOptions& options) {
  return Maker(seed, options).run();
}

Tensors bound(const Graph& graph, const Leaves& leaves) {
  Tensors out;
  for (uint32_t i = 0; i < graph.values().size(); ++i) {
    if (graph.values()[i].role == Graph::Role::computed) continue;
    conform::Tensor tensor = leaves.at(graph.values()[i].name);
    tensor.dtype = static_cast<uint32_t>(graph.values()[i].spec.dtype);
    out.emplace(i, std::move(tensor));
  }
  return out;
}

std::string difference(const conform::Tensor& expected, const conform::Tensor& found, double bound) {
  if (expected.dims != found.dims) return "other dims: " + conform::told(found.dims);
  for (size_t i = 0; i < expected.at.size(); ++i) {
    const conform::Scalar &a = expected.at[i], &b = found.at[i];
    const bool near = a.real == b.real || std::abs(a.real - b.real) <= bound * (1 + std::abs(a.real));
    const bool same = a.whole == b.whole && (near || (std::isnan(a.real) && std::isnan(b.real)));
    if (!same)
      return "element " + std::to_string(i) + " is " + std::to_string(b.real) + ", not " +
             std::to_string(a.real);
  }
  return "";
}

}  // namespace tenon::test
