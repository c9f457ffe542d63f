// SPDX-License-Identifier: Apache-2.0
// The rows of gradients.def parse and fit the ops they are about; the language tells what is wrong.
#include "graph/gradient_rules.hpp"

#include "base/schema.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

using namespace tenon;
using namespace tenon::graph;

namespace {

std::string told(const char* text) { return std::string(expression_from(text).message()); }

// Whether every reference of `e` is to something that `schema` has.
void check_references(const Expression& e, const base::OpSchema& schema) {
  CAPTURE(e.text);
  if (e.kind == Expression::Kind::input && !schema.many_inputs) CHECK(e.index < schema.inputs_max);
  if (e.kind == Expression::Kind::output || e.kind == Expression::Kind::gradient)
    CHECK(e.index < schema.outputs);
  for (const Expression& argument : e.arguments) check_references(argument, schema);
  const auto op = op_from(e.word);
  if (e.kind != Expression::Kind::call || !op.ok()) return;
  const base::OpSchema& called = *base::schema_of(*op);
  CHECK(e.arguments.size() >= called.inputs_min);
  CHECK(e.index < called.outputs);
  for (const AttributeRule& rule : e.attributes) {
    const auto& known = called.attributes;
    CAPTURE(rule.name);
    CHECK(std::any_of(known.begin(), known.end(),
                      [&](const auto& attribute) { return attribute.name == rule.name; }));
  }
}

}  // namespace

TEST_CASE("gradient rules: every row parses, is there once and refers to what its op has") {
  REQUIRE_MESSAGE(rules_status().ok(), rules_status().message());
  std::set<std::pair<Op, uint32_t>> seen;
  for (const Rule& rule : gradient_rules()) {
    CAPTURE(name(rule.op));
    CAPTURE(rule.input);
    CHECK(seen.emplace(rule.op, rule.input).second);
    const base::OpSchema& schema = *base::schema_of(rule.op);
    CHECK((rule.input < schema.inputs_max || rule.input == TN_OP_MANY));
    check_references(rule.expression, schema);
    CHECK((rule.is_zero() || !rule.gradients.empty()));
  }
  CHECK(seen.size() > 90);
}

TEST_CASE("gradient rules: an expression is read into its parts") {
  const auto read = expression_from("matmul(x1, neg(dy0)) {transpose_a=not(transpose_b), transpose_b=1}.2");
  REQUIRE_MESSAGE(read.ok(), read.message());
  const Expression& e = *read;
  CHECK(e.word == "matmul");
  CHECK(e.index == 2);
  CHECK(e.text == "matmul(x1, neg(dy0)) {transpose_a=not(transpose_b), transpose_b=1}");
  REQUIRE(e.arguments.size() == 2);
  CHECK(e.arguments[0].kind == Expression::Kind::input);
  CHECK(e.arguments[0].index == 1);
  CHECK(e.arguments[1].arguments[0].kind == Expression::Kind::gradient);
  REQUIRE(e.attributes.size() == 2);
  CHECK(e.attributes[0].source[0].word == "not");
  CHECK(e.attributes[1].source[0].number == 1);
}

TEST_CASE("gradient rules: what is wrong is told with its place") {
  CHECK(told("neg(dy0") ==
        "line 1, column 8: expected ')' or ',' after an argument, found the end of the text");
  CHECK(told("neg(dy0) x") ==
        "line 1, column 10: expected the end of the line after the expression, found 'x'");
  CHECK(told("neg()") == "line 1, column 5: expected an expression, found ')'");
  CHECK(told("scale(dy0) {=2}") == "line 1, column 13: expected the name of an attribute, found '='");
  std::string deep;
  for (int i = 0; i < 1000; ++i) deep += "neg(";
  CHECK(told(deep.c_str()).find("it is nested too deep") != std::string::npos);
}

TEST_CASE("gradient rules: an input without a row has none") {
  CHECK(gradient_rule(Op::argmax, 0) == nullptr);
  CHECK(gradient_rule(Op::embedding, 0) == nullptr);
  CHECK(gradient_rule(Op::concat, 7) != nullptr);
  CHECK(gradient_rule(Op::floor, 0)->is_zero());
}
