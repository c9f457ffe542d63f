// SPDX-License-Identifier: Apache-2.0
// scanner.cpp: see scanner.hpp.
#include "graph/scanner.hpp"

#include "base/text.hpp"
#include "graph/words.hpp"

#include <algorithm>
#include <charconv>

namespace tenon::graph {
namespace {

bool is_blank(char c) noexcept { return c == ' ' || c == '\t' || c == '\r'; }
int hex_digit(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

}  // namespace

Status Scanner::fail(const std::string& text, size_t at) const {
  const std::string_view before = text_.substr(0, at);
  const size_t start = before.rfind('\n') + 1;  // npos + 1 is 0
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const auto column =
      1 + std::count_if(before.begin() + static_cast<std::ptrdiff_t>(start), before.end(),
                        [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
  return Status(TN_INVALID,
                "line " + std::to_string(line) + ", column " + std::to_string(column) + ": " + text);
}

Status Scanner::expected(const std::string& what) { return fail("expected " + what + ", found " + found()); }

std::string Scanner::found() noexcept {
  skip_blanks();
  if (at_ == text_.size()) return "the end of the text";
  if (text_[at_] == '\n') return "the end of the line";
  size_t end = at_;
  while (end < text_.size() && is_name_character(text_[end])) ++end;
  return base::quoted(text_.substr(at_, std::max<size_t>(end - at_, 1)), 32);
}

void Scanner::skip_blanks() noexcept {
  while (at_ < text_.size() && is_blank(text_[at_])) ++at_;
  if (at_ < text_.size() && text_[at_] == '#') at_ = std::min(text_.find('\n', at_), text_.size());
}

bool Scanner::next_line() noexcept {
  for (skip_blanks(); at_ < text_.size() && text_[at_] == '\n'; skip_blanks()) {
    ++at_;
    ++line_;
  }
  return at_ < text_.size();
}

char Scanner::peek() noexcept {
  skip_blanks();
  return at_ < text_.size() ? text_[at_] : '\0';
}

bool Scanner::at_line_end() noexcept {
  const char next = peek();
  return at_ == text_.size() || next == '\n';
}

bool Scanner::take(char c) noexcept {
  skip_blanks();
  if (at_ == text_.size() || text_[at_] != c) return false;
  ++at_;
  return true;
}

Status Scanner::expect(char c, const char* where) {
  if (take(c)) return {};
  return expected(std::string("'") + c + "' " + where);
}

Status Scanner::expect_line_end(const char* after) {
  if (at_line_end()) return {};
  return expected(std::string("the end of the line after ") + after);
}

std::string_view Scanner::word() noexcept {
  skip_blanks();
  const size_t start = at_;
  while (at_ < text_.size() && is_name_character(text_[at_])) ++at_;
  return text_.substr(start, at_ - start);
}

Result<Number> Scanner::number(const char* what) {
  skip_blanks();
  const size_t start = at_;
  size_t end = at_;
  while (end < text_.size() && (is_name_character(text_[end]) || text_[end] == '+')) ++end;
  const char* const first = text_.data() + start;
  const char* const last = text_.data() + end;
  if (start == end) return expected(what);
  int64_t whole = 0;
  auto [after, code] = std::from_chars(first, last, whole);
  if (code == std::errc() && after == last) {
    at_ = end;
    return Number(whole);
  }
  if (code == std::errc::result_out_of_range && after == last)
    return fail(base::quoted(text_.substr(start, end - start), 32) + " does not fit in 64 bits");
  double real = 0;
  std::tie(after, code) = [&] {
    const auto read = std::from_chars(first, last, real);
    return std::pair(read.ptr, read.ec);
  }();
  if (code == std::errc::result_out_of_range && after == last)
    return fail(base::quoted(text_.substr(start, end - start), 32) +
                " is too large or too close to 0 for a float of 64 bits");
  if (code != std::errc() || after != last) return expected(what);
  at_ = end;
  return Number(real);
}

Result<int64_t> Scanner::whole_number(const char* what) {
  skip_blanks();
  const size_t start = at_;
  const Number read = TN_TRY(number(what));
  if (const int64_t* whole = std::get_if<int64_t>(&read)) return *whole;
  return fail(std::string("expected ") + what + ", found the fraction " + words(std::get<double>(read)),
              start);
}

Result<std::vector<Number>> Scanner::numbers(const char* what) {
  std::vector<Number> out;
  TN_TRY(expect('[', "before a list"));
  if (take(']')) return out;
  do out.push_back(TN_TRY(number(what)));
  while (take(','));
  TN_TRY(expect(']', "or ',' in a list"));
  return out;
}

Result<std::string> Scanner::string() {
  TN_TRY(expect('"', "before a string"));
  std::string out;
  for (; at_ < text_.size() && text_[at_] != '\n'; ++at_) {
    const char c = text_[at_];
    if (c == '"') {
      ++at_;
      return out;
    }
    const std::string_view rest = text_.substr(at_);
    if (c != '\\') {
      out += c;
    } else if (rest.size() > 1 && (rest[1] == '"' || rest[1] == '\\')) {
      out += rest[1];
      at_ += 1;
    } else if (rest.size() > 3 && rest[1] == 'x' && hex_digit(rest[2]) >= 0 && hex_digit(rest[3]) >= 0) {
      out += static_cast<char>(hex_digit(rest[2]) * 16 + hex_digit(rest[3]));
      at_ += 3;
    } else {
      return fail("in a string '\\' stands before '\"', '\\' or x and two hex digits");
    }
  }
  return expected("'\"' at the end of a string");
}

bool all_whole(const std::vector<Number>& numbers, std::vector<int64_t>& whole) {
  whole.clear();
  for (const Number& number : numbers) {
    if (!std::holds_alternative<int64_t>(number)) return false;
    whole.push_back(std::get<int64_t>(number));
  }
  return true;
}

}  // namespace tenon::graph
