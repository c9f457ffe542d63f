// SPDX-License-Identifier: Apache-2.0
// What attention gives where the products gave something, row by row: the same, and which rows change into what.
//
// Invariant: both graphs are run by the interpreter, which never rounds.
#include "rewriting.hpp"
#include "support/random_graph.hpp"

#include <cmath>
#include <limits>

using namespace tenon;
using namespace tenon::test;

namespace {

using Numbers = std::vector<double>;
using Value = GraphValue;

constexpr int64_t queries = 3, keys = 4, depth = 2;
constexpr double infinite = std::numeric_limits<double>::infinity();

// y = softmax(q · kᵀ, masked) · v of one head, and the gradients of its squares.
struct Written {
  Graph graph{"written"};
  Leaves leaves{};

  Value leaf(const char* name, const TensorSpec& spec, const Numbers& numbers) {
    leaves[name] = tensor_of(spec, numbers);
    return graph.input(name, spec);
  }
  Value rows(const char* name, int64_t count, double step) {
    Numbers numbers;
    for (int64_t i = 0; i < count * depth; ++i)
      numbers.push_back(std::sin(step * static_cast<double>(i + 1)));
    return leaf(name, {f32, {1, 1, count, depth}}, numbers);
  }
  Value scores() {
    return graph.matmul(rows("q", queries, 1.1), rows("k", keys, 2.3), {{"transpose_b", int64_t{1}}});
  }
  void finish(Value masked) {
    const Value v = rows("v", keys, 0.7);
    const Value y = graph.named("y").matmul(graph.softmax(masked), v);
    graph.output("y", y);
    const Value q = graph.value(index_of(graph, "q")), k = graph.value(index_of(graph, "k"));
    const auto made = graph.gradients(graph.sum(graph.square(y), {0, 1, 2, 3}), {q, k, v});
    REQUIRE_MESSAGE(made.ok(), made.message());
    for (size_t i = 0; i < 3; ++i) graph.output("d" + std::to_string(i), (*made)[i]);
  }
};

Written by_where(const Numbers& shown, double instead) {
  Written out;
  const Value scores = out.scores(), seen = out.leaf("shown", {boolean, {queries, keys}}, shown);
  out.finish(out.graph.where(seen, scores, out.graph.constant({f32, {}}, instead)));
  return out;
}
Written by_adding(const Numbers& mask) {
  Written out;
  const Value scores = out.scores();
  out.finish(out.graph.add(scores, out.leaf("mask", {f32, {queries, keys}}, mask)));
  return out;
}

// Every output, by name.
std::map<std::string, Numbers> outputs(const Graph& graph, const Leaves& leaves) {
  std::map<std::string, Numbers> out;
  const Tensors values = run(graph, bound(graph, leaves));
  for (const Graph::Output& output : graph.outputs()) {
    for (const conform::Scalar& one : values.at(output.value).at) out[output.name].push_back(one.real);
  }
  return out;
}

struct Both {
  explicit Both(const Written& from) {
    const Graph after = done(passes::attention(from.graph)).graph;
    REQUIRE(count(after, Op::attention) == 1);
    REQUIRE(count(after, Op::attention_grad) == 1);
    written = outputs(from.graph, from.leaves);
    fused = outputs(after, from.leaves);
  }
  std::map<std::string, Numbers> written, fused;
};

void check_near(const Numbers& a, const Numbers& b) {
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    CAPTURE(i);
    CHECK(std::fabs(a[i] - b[i]) <= 1e-12);
  }
}
Numbers row(const Numbers& all, int64_t index) {
  return {all.begin() + index * depth, all.begin() + (index + 1) * depth};
}
bool all_nan(const Numbers& numbers) {
  return std::all_of(numbers.begin(), numbers.end(), [](double x) { return std::isnan(x); });
}

const Numbers some_seen{1, 0, 0, 0, 1, 1, 0, 0, 1, 1, 1, 0};
const Numbers row_1_hidden{1, 0, 0, 1, 0, 0, 0, 0, 1, 1, 1, 0};

}  // namespace

TEST_CASE("attention equals: rows that see a key are what the products give, and so are all gradients") {
  Numbers mask(some_seen.size());
  for (size_t i = 0; i < mask.size(); ++i)
    mask[i] = some_seen[i] != 0 ? 0.25 * static_cast<double>(i) : -infinite;
  for (const Written& written :
       {by_where(some_seen, -1e9), by_where(some_seen, -infinite), by_adding(mask)}) {
    const Both both(written);
    for (const auto& [name, numbers] : both.written) {
      CAPTURE(name);
      check_near(numbers, both.fused.at(name));
    }
  }
}

TEST_CASE(
    "attention equals: a row that sees nothing is 0 and gives gradients of 0, and others stay as they are") {
  Numbers mask(row_1_hidden.size());
  for (size_t i = 0; i < mask.size(); ++i) mask[i] = row_1_hidden[i] != 0 ? 0 : -infinite;
  // As products: the mean of v where the number is finite, NaN where it is not.
  for (const Written& written :
       {by_where(row_1_hidden, -1e9), by_where(row_1_hidden, -infinite), by_adding(mask)}) {
    const Both both(written);
    const Numbers before = row(both.written.at("y"), 1);
    CHECK((all_nan(before) || (before[0] != 0 && std::isfinite(before[0]))));
    CHECK(row(both.fused.at("y"), 1) == Numbers{0, 0});
    CHECK(row(both.fused.at("d0"), 1) == Numbers{0, 0});
    for (const int64_t other : {0, 2}) {
      check_near(row(both.written.at("y"), other), row(both.fused.at("y"), other));
      check_near(row(both.written.at("d0"), other), row(both.fused.at("d0"), other));
    }
    for (const char* gradient : {"d1", "d2"}) {
      for (const double number : both.fused.at(gradient)) CHECK(std::isfinite(number));
    }
  }
}

TEST_CASE("attention equals: a finite number that is added hides nothing, and a row of it is as it was") {
  Numbers mask(row_1_hidden.size());
  for (size_t i = 0; i < mask.size(); ++i) mask[i] = row_1_hidden[i] != 0 ? 0 : -1e9;
  const Both both(by_adding(mask));
  for (int64_t i = 0; i < queries; ++i) {
    const Numbers a = row(both.written.at("y"), i), b = row(both.fused.at("y"), i);
    for (size_t d = 0; d < a.size(); ++d) CHECK(a[d] == doctest::Approx(b[d]).epsilon(1e-6));
  }
}

TEST_CASE(
    "attention equals: a NaN that where() hides makes its row NaN, as one that is hidden by adding does") {
  // Key 3 is hidden from rows 0 and 1, and from row 2 it is seen.
  const Numbers shown{1, 1, 1, 0, 1, 0, 1, 0, 1, 1, 1, 1};
  Written written = by_where(shown, -infinite);
  written.leaves.at("k").at[3 * depth].real = std::nan("");
  const Both both(written);
  for (int64_t i = 0; i < queries; ++i) {
    CAPTURE(i);
    CHECK(all_nan(row(both.written.at("y"), i)) == (i == 2));
    CHECK(all_nan(row(both.fused.at("y"), i)));
  }
  Numbers mask(shown.size());
  for (size_t i = 0; i < mask.size(); ++i) mask[i] = shown[i] != 0 ? 0 : -infinite;
  Written adding = by_adding(mask);
  adding.leaves.at("k").at[3 * depth].real = std::nan("");
  const Both same(adding);
  CHECK(all_nan(same.written.at("y")));
  CHECK(all_nan(same.fused.at("y")));
}
