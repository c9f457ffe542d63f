// SPDX-License-Identifier: Apache-2.0
// The kit's reader of gradients.def, and the cases that the table makes.
#include "conformance/case.hpp"
#include "conformance/gradients/expression.hpp"
#include "conformance/words.hpp"

#include <doctest/doctest.h>

using namespace tenon::conform;

TEST_CASE("gradients: every row of the table parses, and its op has a case") {
  for (const GradientRow& row : gradient_rows()) {
    CAPTURE(row.text);
    CHECK(parsed(row.text).has_value());
    const std::string name =
        words("gradient ", find_row(row.op)->name, ": f32 is the slope of what the op gives");
    CHECK_MESSAGE((find_case(name) != nullptr), name);
  }
  CHECK(gradient_rows().size() > 90);
  CHECK(differentiable_ops().size() > 50);
}

TEST_CASE("gradients: an expression is read into its parts") {
  const auto read = parsed("matmul(x1, neg(dy0)) {transpose_a=not(transpose_b), stride}.2");
  REQUIRE(read.has_value());
  CHECK(read->word == "matmul");
  CHECK(read->index == 2);
  CHECK(read->text == "matmul(x1, neg(dy0)) {transpose_a=not(transpose_b), stride}");
  REQUIRE(read->arguments.size() == 2);
  CHECK((read->arguments[0].kind == Expression::Kind::input));
  CHECK(read->arguments[0].index == 1);
  CHECK((read->arguments[1].arguments[0].kind == Expression::Kind::gradient));
  REQUIRE(read->attributes == std::vector<std::string>{"transpose_a", "stride"});
  CHECK(read->given[0].word == "not");
  CHECK(read->given[1].word == "stride");
  CHECK(gradients_read(*read) == 1);
}

TEST_CASE("gradients: what does not parse is nothing, wherever it breaks off") {
  for (const char* text :
       {"neg(dy0", "neg(dy0) x", "neg()", "scale(dy0) {=2", "add(x0,)", "", "neg(dy0).", "-"}) {
    CAPTURE(text);
    CHECK_FALSE(parsed(text).has_value());
  }
  std::string deep;
  for (int i = 0; i < 1000; ++i) deep += "neg(";
  CHECK_FALSE(parsed(deep).has_value());
}

TEST_CASE("gradients: a row is found by op and input, and one for all inputs by each") {
  REQUIRE((gradient_row(TN_OP_matmul, 1) != nullptr));
  CHECK((gradient_row(TN_OP_matmul, 2) == nullptr));
  CHECK((gradient_row(TN_OP_concat, 7) != nullptr));
  CHECK((gradient_row(TN_OP_argmax, 0) == nullptr));
}
