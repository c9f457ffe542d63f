// SPDX-License-Identifier: Apache-2.0
// gradient_rules.hpp: the rows of gradients.def as expressions.
//
// Invariant: parsed once from the table; a row that does not parse is found by rules_status(), which the tests ask.
#pragma once

#include <tenon/result.hpp>
#include <tenon/types.hpp>

#include <span>
#include <string>
#include <vector>

namespace tenon::graph {

struct Expression;

// {name=source}; the source of {name} is the word `name`.
struct AttributeRule {
  std::string name;
  std::vector<Expression> source;  // one
};

struct Expression {
  enum class Kind { input, output, gradient, number, word, call };
  Kind kind = Kind::word;
  uint32_t index = 0;  // of an input, output, gradient; of a call: which output
  double number = 0;
  std::string word{};  // of a word, a call
  std::vector<Expression> arguments{};
  std::vector<AttributeRule> attributes{};
  std::string text{};  // equal calls have equal texts, without the picked output
};

struct Rule {
  Op op{};
  uint32_t input = 0;  // TN_OP_MANY: every one
  Expression expression{};
  std::vector<uint32_t> gradients{};  // which dy it reads

  bool is_zero() const noexcept {
    return expression.kind == Expression::Kind::word && expression.word == "zero";
  }
  bool reads(uint32_t gradient) const noexcept;
};

// All rows, in the order of the table. [any-thread; does not block; cannot fail]
std::span<const Rule> gradient_rules();
// The row for an input of `op`, or NULL. [any-thread; does not block; returns NULL]
const Rule* gradient_rule(Op op, uint32_t input);
// The first row that does not parse. [any-thread; does not block; may fail]
Status rules_status();
// One expression. TN_INVALID with the place of what is wrong. [any-thread; does not block; may fail]
Result<Expression> expression_from(std::string_view text);

}  // namespace tenon::graph
