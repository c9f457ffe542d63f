// SPDX-License-Identifier: Apache-2.0
// Every row of gradients.def against the slope of its op: small graphs, one for each way a rule can go, differentiated and
// run in double precision. A row of the table that no graph here goes through is a failure.
#include "graph/gradient_rules.hpp"
#include "support/interpreter.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <set>

using namespace tenon;
using namespace tenon::test;

namespace {

using Value = Graph::Value;
using Ints = Graph::Ints;

// A graph under test: leaves with numbers, and what is differentiated.
class Bench {
 public:
  Graph g;

  // Floats in ±1.5 that keep away from 0 and from each other, so that no small step crosses a kink.
  Value real(std::initializer_list<int64_t> dims, double low = -1.5, double high = 1.5) {
    const Value out = g.param("p" + std::to_string(wanted_.size()), {f64, dims});
    std::vector<double> numbers(g.spec(out).elements());
    for (double& number : numbers) {
      do number = low + (high - low) * std::uniform_real_distribution<double>(0, 1)(random_);
      while (std::fabs(number) < 0.05);
    }
    keep(out, numbers);
    wanted_.push_back(out);
    return out;
  }
  // Given numbers, differentiated.
  Value at(Ints dims, const std::vector<double>& numbers) {
    wanted_.push_back(g.param("p" + std::to_string(wanted_.size()), {f64, std::move(dims)}));
    keep(wanted_.back(), numbers);
    return wanted_.back();
  }
  // Given numbers, not differentiated.
  Value given(DType dtype, Ints dims, const std::vector<double>& numbers) {
    const Value out = g.input("i" + std::to_string(count_++), {dtype, std::move(dims)});
    keep(out, numbers);
    return out;
  }
  Value seed(uint64_t number) { return given(u64, {}, {static_cast<double>(number)}); }

  // Compares d(Σ weight·y)/dp of every parameter with its slope.
  void check(Value y) {
    REQUIRE_MESSAGE(g.check().ok(), g.check().message());
    const TensorSpec spec = g.spec(y);
    std::vector<double> weights(spec.elements());
    for (double& weight : weights) weight = std::uniform_real_distribution<double>(0.5, 1.5)(random_);
    const Value weight = given(spec.dtype, spec.dims, weights);
    Ints axes;
    for (size_t i = 0; i < spec.dims.size(); ++i) axes.push_back(static_cast<int64_t>(i));
    const Value loss = g.sum(g.mul(y, weight), axes);
    const auto gradients = g.gradients(loss, wanted_);
    REQUIRE_MESSAGE(gradients.ok(), gradients.message());
    const Tensors values = run(g, leaves_);
    for (size_t n = 0; n < wanted_.size(); ++n) compare(wanted_[n], (*gradients)[n], loss, values);
  }

 private:
  void keep(Value value, const std::vector<double>& numbers) {
    leaves_.emplace(value.index, tensor_of(g.spec(value), numbers));
  }

  double moved(Value parameter, size_t i, double step, Value loss) const {
    Tensors leaves = leaves_;
    leaves.at(parameter.index).at[i].real += step;
    return run(g, leaves).at(loss.index).at[0].real;
  }

  void compare(Value parameter, Value gradient, Value loss, const Tensors& values) {
    const conform::Tensor& found = values.at(gradient.index);
    CHECK(g.spec(gradient).dtype == g.spec(parameter).dtype);
    CHECK(g.spec(gradient).dims == g.spec(parameter).dims);
    const double step = 1e-5;
    for (size_t i = 0; i < found.at.size(); i += found.at.size() / 6 + 1) {
      const double slope = (moved(parameter, i, step, loss) - moved(parameter, i, -step, loss)) / (2 * step);
      CAPTURE(g.values()[parameter.index].name);
      CAPTURE(i);
      CHECK(found.at[i].real == doctest::Approx(slope).epsilon(1e-6).scale(1));
    }
  }

  std::mt19937_64 random_{7};
  Tensors leaves_{};
  std::vector<Value> wanted_{};
  int count_ = 0;
};

struct Case {
  const char* what;
  std::function<Value(Bench&)> build;
};

// clang-format off
const Case cases[] = {
  {"neg",        [](Bench& b) { return b.g.neg(b.real({2, 3})); }},
  {"abs",        [](Bench& b) { return b.g.abs(b.real({2, 3})); }},
  {"exp",        [](Bench& b) { return b.g.exp(b.real({2, 3})); }},
  {"log",        [](Bench& b) { return b.g.log(b.real({2, 3}, 0.5, 2)); }},
  {"sqrt",       [](Bench& b) { return b.g.sqrt(b.real({2, 3}, 0.5, 2)); }},
  {"rsqrt",      [](Bench& b) { return b.g.rsqrt(b.real({2, 3}, 0.5, 2)); }},
  {"square",     [](Bench& b) { return b.g.square(b.real({2, 3})); }},
  {"reciprocal", [](Bench& b) { return b.g.reciprocal(b.real({2, 3}, 0.5, 2)); }},
  {"sigmoid",    [](Bench& b) { return b.g.sigmoid(b.real({2, 3})); }},
  {"tanh",       [](Bench& b) { return b.g.tanh(b.real({2, 3})); }},
  {"relu",       [](Bench& b) { return b.g.relu(b.real({4, 3})); }},
  {"gelu",       [](Bench& b) { return b.g.gelu(b.real({2, 3})); }},
  {"gelu by tanh", [](Bench& b) { return b.g.gelu(b.real({2, 3}), {{"tanh", 1}}); }},
  {"silu",       [](Bench& b) { return b.g.silu(b.real({2, 3})); }},
  {"floor",      [](Bench& b) { return b.g.floor(b.real({2, 3}, 0.2, 0.8)); }},
  {"sign",       [](Bench& b) { return b.g.sign(b.real({2, 3})); }},
  {"erf",        [](Bench& b) { return b.g.erf(b.real({2, 3})); }},
  {"sin",        [](Bench& b) { return b.g.sin(b.real({2, 3})); }},
  {"cos",        [](Bench& b) { return b.g.cos(b.real({2, 3})); }},
  {"cast",       [](Bench& b) { return b.g.square(b.g.cast(b.real({2, 3}), f32)); }},
  {"scale",      [](Bench& b) { return b.g.square(b.g.scale(b.real({2, 3}), 3, 1)); }},
  {"identity",   [](Bench& b) { return b.g.square(b.g.identity(b.real({2, 3}))); }},

  {"add",        [](Bench& b) { return b.g.square(b.g.add(b.real({2, 3}), b.real({3}))); }},
  {"add to a scalar", [](Bench& b) { return b.g.square(b.g.add(b.real({}), b.real({2, 1, 3}))); }},
  {"sub",        [](Bench& b) { return b.g.square(b.g.sub(b.real({2, 1}), b.real({3}))); }},
  {"mul",        [](Bench& b) { return b.g.mul(b.real({2, 3}), b.real({2, 1})); }},
  {"mul with itself", [](Bench& b) { const Value x = b.real({4}); return b.g.mul(x, x); }},
  {"div",        [](Bench& b) { return b.g.div(b.real({2, 3}), b.real({3}, 0.5, 2)); }},
  {"max",        [](Bench& b) { return b.g.max(b.real({4, 3}), b.real({3})); }},
  {"min",        [](Bench& b) { return b.g.min(b.real({4, 3}), b.real({3})); }},
  {"pow",        [](Bench& b) { return b.g.pow(b.real({2, 3}, 0.5, 2), b.real({3})); }},
  {"pow of 0",   [](Bench& b) { return b.g.pow(b.at({3}, {0, 0, 0}), b.given(f64, {3}, {2, 1, 0})); }},
  {"pow of 0, by its exponent", [](Bench& b) { return b.g.pow(b.given(f64, {2}, {0, 0}), b.at({2}, {2, 1})); }},
  {"pow of a negative number", [](Bench& b) { return b.g.pow(b.at({3}, {-1.5, -0.5, -1}), b.given(f64, {3}, {2, 0, 3})); }},
  {"mod",        [](Bench& b) { return b.g.square(b.g.mod(b.real({2, 3}, 2.1, 2.9), b.real({3}, 0.95, 1.05))); }},
  {"relu_grad",    [](Bench& b) { return b.g.square(b.g.relu_grad(b.real({4, 3}), b.real({3}))); }},
  {"gelu_grad",    [](Bench& b) { return b.g.gelu_grad(b.real({2, 3}), b.given(f64, {3}, {0.5, -1, 2})); }},
  {"silu_grad",    [](Bench& b) { return b.g.silu_grad(b.real({2, 3}), b.given(f64, {3}, {0.5, -1, 2})); }},
  {"sigmoid_grad", [](Bench& b) { return b.g.sigmoid_grad(b.real({2, 3}), b.real({3})); }},
  {"tanh_grad",    [](Bench& b) { return b.g.tanh_grad(b.real({3}), b.real({2, 3})); }},
  {"where",      [](Bench& b) { return b.g.where(b.given(boolean, {2, 1}, {1, 0}), b.real({2, 3}), b.real({3})); }},
  {"where from a comparison", [](Bench& b) { const Value x = b.real({8}); return b.g.where(b.g.greater(x, b.given(f64, {}, {0})), b.g.square(x), x); }},
  {"clip",       [](Bench& b) { return b.g.square(b.g.clip(b.real({5, 3}), b.real({3}, -1, -0.5), b.real({}, 0.5, 1))); }},
  {"fma",        [](Bench& b) { return b.g.fma(b.real({2, 3}), b.real({3}), b.real({2, 1})); }},

  {"sum",        [](Bench& b) { return b.g.square(b.g.sum(b.real({2, 3, 4}), {0, 2})); }},
  {"sum that keeps dims", [](Bench& b) { return b.g.square(b.g.sum(b.real({2, 3}), {-1}, true)); }},
  {"mean",       [](Bench& b) { return b.g.square(b.g.mean(b.real({2, 3, 4}), {1})); }},
  {"reduce_max", [](Bench& b) { return b.g.square(b.g.reduce_max(b.real({3, 4}), {1})); }},
  {"reduce_min", [](Bench& b) { return b.g.square(b.g.reduce_min(b.real({3, 4}), {0}, true)); }},

  {"matmul",        [](Bench& b) { return b.g.matmul(b.real({2, 3}), b.real({3, 4})); }},
  {"matmul aᵀ b",   [](Bench& b) { return b.g.matmul(b.real({3, 2}), b.real({3, 4}), {{"transpose_a", 1}}); }},
  {"matmul a bᵀ",   [](Bench& b) { return b.g.matmul(b.real({2, 3}), b.real({4, 3}), {{"transpose_b", 1}}); }},
  {"matmul aᵀ bᵀ",  [](Bench& b) { return b.g.matmul(b.real({3, 2}), b.real({4, 3}), {{"transpose_a", 1}, {"transpose_b", 1}}); }},
  {"matmul of a batch and a matrix",   [](Bench& b) { return b.g.matmul(b.real({2, 5, 2, 3}), b.real({3, 4})); }},
  {"matmul of a batch and a matrixᵀ",  [](Bench& b) { return b.g.matmul(b.real({2, 2, 3}), b.real({4, 3}), {{"transpose_b", 1}}); }},
  {"matmul of a batchᵀ and a matrix",  [](Bench& b) { return b.g.matmul(b.real({2, 3, 2}), b.real({3, 4}), {{"transpose_a", 1}}); }},
  {"matmul in batches", [](Bench& b) { return b.g.matmul(b.real({2, 1, 2, 3}), b.real({5, 3, 2})); }},
  {"conv2d",        [](Bench& b) { return b.g.conv2d(b.real({2, 4, 5, 6}), b.real({6, 2, 3, 2}), {{"groups", 2}, {"stride", Ints{2, 1}}, {"pad", Ints{1, 0, 1, 1}}, {"dilation", Ints{1, 2}}}); }},
  {"conv2d_grad_data",   [](Bench& b) { return b.g.conv2d_grad_data(b.real({1, 2, 3, 3}), b.real({2, 3, 2, 2}), {{"input_shape", Ints{1, 3, 4, 4}}}); }},
  {"conv2d_grad_weight", [](Bench& b) { return b.g.conv2d_grad_weight(b.real({1, 3, 4, 4}), b.real({1, 2, 3, 3}), {{"weight_shape", Ints{2, 3, 2, 2}}}); }},
  {"max_pool",      [](Bench& b) { return b.g.max_pool(b.real({1, 2, 4, 4}), {{"kernel", Ints{2, 2}}, {"stride", Ints{2, 1}}}); }},
  {"avg_pool",      [](Bench& b) { return b.g.avg_pool(b.real({1, 2, 4, 4}), {{"kernel", Ints{2, 3}}, {"stride", Ints{2, 1}}, {"pad", Ints{1, 1, 0, 1}}}); }},
  {"avg_pool_grad", [](Bench& b) { return b.g.avg_pool_grad(b.real({1, 2, 2, 2}), {{"kernel", Ints{2, 2}}, {"stride", Ints{2, 2}}, {"input_shape", Ints{1, 2, 4, 4}}}); }},
  {"global_pool",   [](Bench& b) { return b.g.square(b.g.global_pool(b.real({2, 2, 3, 3}))); }},

  {"batch_norm_train", [](Bench& b) { return b.g.batch_norm_train(b.real({2, 3, 2, 2}), b.real({3}), b.real({3}), b.given(f64, {3}, {0, 0, 0}), b.given(f64, {3}, {1, 1, 1}))[0]; }},
  {"batch_norm_infer", [](Bench& b) { return b.g.batch_norm_infer(b.real({2, 3, 2, 2}), b.real({3}), b.real({3}), b.given(f64, {3}, {0.1, 0.2, 0.3}), b.given(f64, {3}, {1, 2, 0.5})); }},
  {"batch_norm_stats", [](Bench& b) { const auto [sum, squares] = b.g.batch_norm_stats(b.real({2, 3, 2, 2})); return b.g.mul(sum, squares); }},
  {"batch_norm_stats, only the sum used", [](Bench& b) { return b.g.square(b.g.batch_norm_stats(b.real({2, 3, 2, 2}))[0]); }},
  {"batch_norm_apply", [](Bench& b) { return b.g.batch_norm_apply(b.real({2, 3, 2, 2}), b.real({3}), b.real({3}), b.real({3}), b.real({3}, 0.5, 2)); }},
  {"layer_norm",    [](Bench& b) { return b.g.layer_norm(b.real({2, 3, 4}), b.real({3, 4}), b.real({3, 4}), {{"axes", 2}})[0]; }},
  {"rms_norm",      [](Bench& b) { return b.g.rms_norm(b.real({3, 4}), b.real({4}))[0]; }},
  {"softmax",       [](Bench& b) { return b.g.softmax(b.real({3, 4}), {{"axis", 0}}); }},
  {"log_softmax",   [](Bench& b) { return b.g.log_softmax(b.real({3, 4})); }},
  {"cross_entropy", [](Bench& b) { return b.g.cross_entropy(b.real({3, 4}), b.given(i64, {3}, {1, 2, 3}), {{"ignore_index", 2}})[0]; }},
  {"attention",     [](Bench& b) { return b.g.attention(b.real({1, 2, 3, 4}), b.real({1, 2, 5, 4}), b.real({1, 2, 5, 4}), {{"scale", 0.5}, {"causal", 1}})[0]; }},
  {"attention with a mask", [](Bench& b) { return b.g.attention(b.real({1, 1, 2, 3}), b.real({1, 1, 2, 3}), b.real({1, 1, 2, 3}), b.given(f64, {1, 1, 2, 2}, {0.5, -1, 0, 2}), {{"scale", 0.5}})[0]; }},
  {"attention with a mask of rows", [](Bench& b) { return b.g.attention(b.real({2, 2, 2, 3}), b.real({2, 2, 3, 3}), b.real({2, 2, 3, 3}), b.given(f64, {2, 1, 3}, {0.5, -1, 0, 2, 1, -0.5}), {{"scale", 0.5}})[0]; }},
  {"embedding",      [](Bench& b) { return b.g.square(b.g.embedding(b.given(i64, {4}, {2, 0, 2, 1}), b.real({3, 2}))); }},
  {"embedding_grad", [](Bench& b) { return b.g.square(b.g.embedding_grad(b.given(i64, {4}, {2, 0, 2, 1}), b.real({4, 2}), {{"rows", 3}})); }},
  {"dropout",        [](Bench& b) { return b.g.square(b.g.dropout(b.real({16}), b.seed(3), b.seed(0), {{"rate", 0.5}})); }},
  {"reshape",        [](Bench& b) { return b.g.square(b.g.reshape(b.real({2, 3}), {3, -1})); }},
  {"transpose",      [](Bench& b) { return b.g.square(b.g.transpose(b.real({2, 3, 4}), {1, 2, 0})); }},
  {"concat",         [](Bench& b) { return b.g.square(b.g.concat({b.real({2, 3}), b.real({2, 1}), b.real({2, 2})}, -1)); }},
  {"slice",          [](Bench& b) { return b.g.square(b.g.slice(b.real({5, 4}), {1, 0}, {4, 3}, {1, 1})); }},
  {"slice by steps", [](Bench& b) { return b.g.square(b.g.slice(b.real({7, 2, 6}), {1, 0, 0}, {6, 2, 6}, {2, 1, 4})); }},
  {"pad",            [](Bench& b) { return b.g.square(b.g.pad(b.real({2, 3}), {1, 0}, {0, 2}, 1)); }},
  {"broadcast_to",   [](Bench& b) { return b.g.square(b.g.broadcast_to(b.real({3, 1}), {2, 3, 4})); }},
  {"convert_layout", [](Bench& b) { return b.g.square(b.g.convert_layout(b.real({2, 3}), "strided")); }},
};
// clang-format on

std::vector<Value> must_gradients(Graph& g, Value y, std::vector<Value> of) {
  auto made = g.gradients(g.sum(y, {0}), of);
  REQUIRE_MESSAGE(made.ok(), made.message());
  return *made;
}

}  // namespace

TEST_CASE("gradients: every rule is the slope of its op") {
  for (const Case& one : cases) {
    CAPTURE(one.what);
    Bench bench;
    bench.check(one.build(bench));
  }
}

TEST_CASE("gradients: no rule is left untested") {
  std::set<std::pair<Op, uint32_t>> through;
  for (const Case& one : cases) {
    Bench bench;
    one.build(bench);
    for (const Graph::Node& node : bench.g.nodes()) {
      for (uint32_t i = 0; i < node.inputs.size(); ++i) {
        const bool floats =
            node.inputs[i] != TN_ABSENT && bench.g.values()[node.inputs[i]].role != Graph::Role::input;
        if (floats) through.emplace(node.op, i);
      }
    }
  }
  for (const graph::Rule& rule : graph::gradient_rules()) {
    CAPTURE(name(rule.op));
    CAPTURE(rule.input);
    CHECK(through.count({rule.op, rule.input == TN_OP_MANY ? 0 : rule.input}) == 1);
  }
}

// Central differences do not see these: 0^b jumps at b = 0, and is infinite below.
TEST_CASE("gradients: pow at 0 is 0 where it ends, and infinite where it is") {
  Graph g;
  const Value x = g.param("x", {f64, {3}}), b = g.param("b", {f64, {3}});
  const auto gradients = must_gradients(g, g.pow(x, b), {x, b});
  const Tensors values =
      run(g, {{x.index, tensor_of(g.spec(x), {0, 0, 0})}, {b.index, tensor_of(g.spec(b), {0, 0.5, -1})}});
  const auto& dx = values.at(gradients[0].index).at;
  const auto& db = values.at(gradients[1].index).at;
  CHECK(dx[0].real == 0);
  CHECK(std::isinf(dx[1].real));
  CHECK(db[0].real == 0);
  CHECK(db[1].real == 0);
  CHECK(db[2].real == -std::numeric_limits<double>::infinity());
}
