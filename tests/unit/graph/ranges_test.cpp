// SPDX-License-Identifier: Apache-2.0
// A graph holds attributes against ranges.def, as a plugin's rules do, and tells node, attribute, value and what is allowed.
#include "base/schema.hpp"
#include "support/range_examples.hpp"

#include <tenon/graph.hpp>

#include <doctest/doctest.h>

#include <algorithm>

using namespace tenon;
using namespace tenon::test;

namespace {

using Ints = Graph::Ints;

AttributeValue filler(const base::AttributeSchema& schema, DType dtype) {
  if (schema.kind == TN_ATTRIBUTE_I64) return int64_t{1};
  if (schema.kind == TN_ATTRIBUTE_F64) return 0.5;
  if (schema.kind == TN_ATTRIBUTE_I64S) return Ints{1};
  if (schema.kind == TN_ATTRIBUTE_STRING) return std::string("sum");
  return dtype;
}

// What a graph says of a node with one attribute given; types and shapes are looked at later.
std::string said(uint32_t op, const std::string& attribute, AttributeValue value, DType dtype = f32) {
  const base::OpSchema& schema = *base::schema_of(static_cast<Op>(op));
  Graph g;
  std::vector<Graph::Value> inputs;
  for (uint32_t i = 0; i < schema.inputs_min; ++i)
    inputs.push_back(g.input("x" + std::to_string(i), {dtype, {1}}));
  Graph::Attributes attributes;
  for (const base::AttributeSchema& one : schema.attributes) {
    if (one.name != attribute && one.required)
      attributes.push_back({std::string(one.name), filler(one, dtype)});
  }
  attributes.push_back({attribute, std::move(value)});
  g.node(schema.op, std::span<const Graph::Value>(inputs), std::move(attributes));
  return std::string(g.check().message());
}

AttributeValue number(uint32_t op, const char* attribute, double value) {
  for (const base::AttributeSchema& one : base::schema_of(static_cast<Op>(op))->attributes) {
    if (one.name == attribute && one.kind == TN_ATTRIBUTE_I64) return static_cast<int64_t>(value);
  }
  return value;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("ranges: a number within passes, and one outside is told") {
  for (const RangeExample& one : range_examples) {
    CAPTURE(name(static_cast<Op>(one.op)));
    CAPTURE(one.attribute);
    CHECK_FALSE(has(said(one.op, one.attribute, number(one.op, one.attribute, one.passes)),
                    std::string("attribute '") + one.attribute));
    CHECK(has(said(one.op, one.attribute, number(one.op, one.attribute, one.refused)), "): " + told(one)));
  }
}

TEST_CASE("ranges: the mistake names the node") {
  Graph g;
  const auto seed = g.input("seed", {u64, {}});
  g.named("thin").dropout(g.input("x", {f32, {4}}), seed, seed, {{"rate", 2}});
  CHECK(g.check().message() ==
        "dropout 'thin' (f32[4], u64[], u64[]): attribute 'rate' is 2, it must be 0 to 1");
  const auto read =
      Graph::parse("tenon-graph 1\n%c: u8[2] = constant() {dtype=u8, shape=[2], value=300}\nend\n");
  REQUIRE_FALSE(read.ok());
  CHECK_MESSAGE(read.message().starts_with("line 2, column "), read.message());
  CHECK_MESSAGE(has(std::string(read.message()), "attribute 'value' is 300, which no u8 is"), read.message());
}

TEST_CASE("ranges: a reduction is one of the words") {
  for (const uint32_t op : reducing_ops) {
    for (const char* word : reductions)
      CHECK_FALSE(has(said(op, "reduce", std::string(word)), "attribute '"));
    CHECK(has(said(op, "reduce", std::string("maximum")),
              "attribute 'reduce' is \"maximum\", it must be one of sum prod min max avg"));
  }
}

TEST_CASE("ranges: a constant's value is one that its type holds, and so is what pads") {
  for (const ValueExample& one : value_examples) {
    CAPTURE(one.dtype);
    CAPTURE(one.value);
    const auto dtype = static_cast<DType>(one.dtype);
    for (const uint32_t op : {uint32_t{TN_OP_constant}, uint32_t{TN_OP_pad}})
      CHECK(has(said(op, "value", one.value, dtype), "attribute 'value' is ") != one.held);
  }
}
