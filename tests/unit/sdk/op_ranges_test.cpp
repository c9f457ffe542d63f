// SPDX-License-Identifier: Apache-2.0
// op_ranges_test.cpp: ranges.def as a plugin's rules read it.
// Invariant: of each row a value within passes and one outside is told, and no row is without an example.
#include "support/range_examples.hpp"

#include <tenon/author/fragment_builder.hpp>
#include <tenon/author/op_rules.hpp>

#include <doctest/doctest.h>

using namespace tenon::author;
using namespace tenon::test;

namespace {

// A number of an attribute, or a word.
struct Given {
  std::string_view attribute;
  double number = 0;
  std::string_view word = "";
  uint32_t dtype = TN_DTYPE_f32;
};

void add(FragmentBuilder::Node& node, const AttributeRow& row, const Given& given) {
  const std::string name(row.name);
  const bool it = row.name == given.attribute;
  if (row.kind == TN_ATTRIBUTE_I64) node.integer(name, it ? static_cast<int64_t>(given.number) : 1);
  if (row.kind == TN_ATTRIBUTE_F64) node.real(name, it ? given.number : row.name == "incr_ratio" ? 2 : 0.5);
  if (row.kind == TN_ATTRIBUTE_I64S) node.integers(name, {1});
  if (row.kind == TN_ATTRIBUTE_STRING) node.string(name, it ? std::string(given.word) : "sum");
  if (row.kind == TN_ATTRIBUTE_DTYPE) node.dtype(name, given.dtype);
}

// What the rules say of a node with all attributes, of which one is given; types and shapes are looked at later.
std::string said(uint32_t op, const Given& given) {
  FragmentBuilder f;
  std::vector<uint32_t> in, out;
  for (uint32_t i = 0; i < op_row(op).inputs_min; ++i) in.push_back(f.input(given.dtype, {1}));
  for (uint32_t i = 0; i < op_row(op).outputs; ++i) out.push_back(f.output(given.dtype, {1}));
  FragmentBuilder::Node& node = f.node(op, in, out);
  for (std::string_view column = op_columns(op).attributes; !column.empty();)
    add(node, next_attribute(column), given);
  return std::string(check_node_rules(FragmentView(f.fragment()), 0).message());
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("op ranges: a number within passes, and one outside is told") {
  for (const RangeExample& one : range_examples) {
    CAPTURE(op_name(one.op));
    CAPTURE(one.attribute);
    CHECK_FALSE(has(said(one.op, {one.attribute, one.passes}), "attribute '"));
    CHECK(said(one.op, {one.attribute, one.refused}) == text("node 0 (", op_name(one.op), "): ", told(one)));
  }
}

TEST_CASE("op ranges: a reduction is one of the words") {
  for (const uint32_t op : reducing_ops) {
    for (const char* word : reductions) CHECK_FALSE(has(said(op, {"reduce", 0, word}), "attribute '"));
    for (const char* word : {"maximum", "", "su", "sum prod", "premul_sum"})
      CHECK(has(said(op, {"reduce", 0, word}),
                text("attribute 'reduce' is \"", word, "\", it must be one of sum prod min max avg")));
  }
}

TEST_CASE("op ranges: a constant's value is one that its type holds, and so is what pads") {
  for (const ValueExample& one : value_examples) {
    CAPTURE(dtype_name(one.dtype));
    CAPTURE(one.value);
    for (const uint32_t op : {uint32_t{TN_OP_constant}, uint32_t{TN_OP_pad}})
      CHECK(has(said(op, {"value", one.value, "", one.dtype}), "attribute 'value' is ") != one.held);
  }
  CHECK(said(TN_OP_constant, {"value", 300, "", TN_DTYPE_u8}) ==
        "node 0 (constant): attribute 'value' is 300, which no u8 is");
}

TEST_CASE("op ranges: every row has an example") {
  for (const AttributeRange& row : detail::ranges) {
    const bool known = std::any_of(
        std::begin(range_examples), std::end(range_examples),
        [&](const RangeExample& one) { return one.op == row.op && one.attribute == row.attribute; });
    CAPTURE(op_name(row.op));
    CAPTURE(row.attribute);
    CHECK((known || row.attribute == "reduce"));
  }
  CHECK(ranges_of(TN_OP_neg).empty());
  CHECK(ranges_of(60000).empty());
}
