// SPDX-License-Identifier: Apache-2.0
// scanner.hpp: reads a text from left to right and knows the place for messages.
//
// Invariant: it never reads outside the text, and each successful read moves on, so a reader of any bytes comes to an end.
#pragma once

#include "graph/elements.hpp"

#include <string>
#include <string_view>

namespace tenon::graph {

class Scanner {
 public:
  explicit Scanner(std::string_view text) noexcept : text_(text) {}

  size_t at() const noexcept { return at_; }
  size_t line() const noexcept { return line_; }
  std::string_view text() const noexcept { return text_; }
  // "line 3, column 14: text", of here or of a place before. [cannot fail]
  Status fail(const std::string& text) const { return fail(text, at_); }
  Status fail(const std::string& text, size_t at) const;
  // "expected X, found Y" [cannot fail]
  Status expected(const std::string& what);

  // Blanks and a comment, within the line.
  void skip_blanks() noexcept;
  // To the first statement of a later line, or of this one at the start of the text; false at the end of the text.
  bool next_line() noexcept;
  bool at_line_end() noexcept;
  // What comes next, without blanks before it; 0 at the end of the text.
  char peek() noexcept;
  // Takes `c` if it comes next.
  bool take(char c) noexcept;
  Status expect(char c, const char* where);
  Status expect_line_end(const char* after);
  // Letters, digits and "_./-": maybe empty.
  std::string_view word() noexcept;
  // A whole number, or a fraction, inf or nan.
  Result<Number> number(const char* what);
  Result<int64_t> whole_number(const char* what);
  // "[1, 2]"
  Result<std::vector<Number>> numbers(const char* what);
  // "\"sum\""
  Result<std::string> string();

 private:
  std::string found() noexcept;

  std::string_view text_;
  size_t at_ = 0, line_ = 1;
};

// All as whole numbers; false when one is a fraction.
bool all_whole(const std::vector<Number>& numbers, std::vector<int64_t>& whole);

}  // namespace tenon::graph
