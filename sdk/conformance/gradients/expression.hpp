// SPDX-License-Identifier: Apache-2.0
// expression.hpp: the rows of gradients.def as the kit reads them; the language stands at the head of that file.
//
// The kit has a reader of its own, as it has references of its own: a verdict must not rest on the core's.
// Invariant: a row that does not parse makes its case fail, and never disappears.
#pragma once

#include "conformance/ops/row.hpp"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::conform {

// One row: how a gradient goes back through `input` of `op`. TN_OP_MANY: every input.
struct GradientRow {
  uint32_t op, input;
  const char* text;
};

struct Expression {
  enum class Kind { input, output, gradient, number, word, call };
  Kind kind = Kind::word;
  uint32_t index = 0;  // of an input, output, gradient; of a call: which output
  double number = 0;
  std::string word{};  // of a word, a call
  std::vector<Expression> arguments{};
  std::vector<std::string> attributes{};  // names, and beside each what it is given
  std::vector<Expression> given{};
  std::string text{};  // of a call, without the picked output: equal calls have equal texts
};

// Every row. [any-thread; does not block; cannot fail]
std::span<const GradientRow> gradient_rows() noexcept;
// The ops that have rows, each once, in the order of the table. [any-thread; does not block; may throw bad_alloc]
std::vector<const Row*> differentiable_ops();
// The row for an input of `op`, or null. [any-thread; does not block; cannot fail]
const GradientRow* gradient_row(uint32_t op, uint32_t input) noexcept;
// Nothing where the text does not parse. [any-thread; does not block; may throw bad_alloc]
std::optional<Expression> parsed(std::string_view text);
// Which gradients of outputs the expression reads: bit i is dyi. [any-thread; does not block; cannot fail]
uint64_t gradients_read(const Expression& expression) noexcept;

}  // namespace tenon::conform
