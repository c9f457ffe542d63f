// SPDX-License-Identifier: Apache-2.0
// expression.cpp: the table, and a reader by descent that stops at the first thing it does not know.
#include "conformance/gradients/expression.hpp"

#include <algorithm>
#include <charconv>

namespace tenon::conform {

namespace {

constexpr GradientRow all_gradients[] = {
#define TN_GRADIENT(op, input, expression) {TN_OP_##op, input, expression},
#include <tenon/gradients.def>
};

constexpr int deepest_expression = 32;

bool is_word(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// "x0", "y1", "dy0": the number behind the letters.
std::optional<uint32_t> reference(std::string_view word, std::string_view letters) {
  uint32_t out = 0;
  if (!word.starts_with(letters) || word.size() == letters.size()) return {};
  const char* const end = word.data() + word.size();
  const auto [last, failed] = std::from_chars(word.data() + letters.size(), end, out);
  return failed == std::errc() && last == end ? std::optional(out) : std::nullopt;
}

class ExpressionReader {
 public:
  explicit ExpressionReader(std::string_view text) : text_(text) {}

  std::optional<Expression> whole() {
    auto out = expression(0);
    skip();
    return good_ && at_ == text_.size() ? std::optional(std::move(out)) : std::nullopt;
  }

 private:
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(char wanted) {
    skip();
    if (at_ == text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }
  void need(bool there) { good_ = good_ && there; }

  std::string_view word() {
    skip();
    const size_t start = at_;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    return text_.substr(start, at_ - start);
  }

  template <class Number>
  Number number() {
    skip();
    Number out{};
    const auto [last, failed] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), out);
    need(failed == std::errc());
    at_ = static_cast<size_t>(last - text_.data());
    return out;
  }

  Expression expression(int depth) {
    Expression out;
    need(depth < deepest_expression);
    skip();
    if (!good_ || at_ == text_.size()) {
      good_ = false;
      return out;
    }
    if (text_[at_] == '-' || (text_[at_] >= '0' && text_[at_] <= '9')) {
      out.kind = Expression::Kind::number;
      out.number = number<double>();
      return out;
    }
    const size_t start = at_;
    out.word = word();
    need(!out.word.empty());
    if (take('(')) {
      call(out, start, depth);
      return out;
    }
    for (const auto& [letters, kind] : {std::pair{"x", Expression::Kind::input},
                                        {"y", Expression::Kind::output},
                                        {"dy", Expression::Kind::gradient}}) {
      const auto index = reference(out.word, letters);
      if (!index) continue;
      out.kind = kind;
      out.index = *index;
    }
    return out;
  }

  void call(Expression& out, size_t start, int depth) {
    out.kind = Expression::Kind::call;
    do {
      out.arguments.push_back(expression(depth + 1));
    } while (good_ && take(','));
    need(take(')'));
    size_t end = at_;
    if (take('{')) {
      do {
        out.attributes.emplace_back(word());
        const bool renamed = take('=');
        out.given.push_back(renamed ? expression(depth + 1) : Expression{.word = out.attributes.back()});
      } while (good_ && take(','));
      need(take('}'));
      end = at_;
    }
    out.text = std::string(text_.substr(start, end - start));
    if (good_ && take('.')) out.index = number<uint32_t>();
  }

  std::string_view text_;
  size_t at_ = 0;
  bool good_ = true;
};

}  // namespace

std::span<const GradientRow> gradient_rows() noexcept { return all_gradients; }

std::vector<const Row*> differentiable_ops() {
  std::vector<const Row*> out;
  for (const GradientRow& row : all_gradients) {
    const Row* const op = find_row(row.op);
    if (std::find(out.begin(), out.end(), op) == out.end()) out.push_back(op);
  }
  return out;
}

const GradientRow* gradient_row(uint32_t op, uint32_t input) noexcept {
  for (const GradientRow& row : all_gradients) {
    if (row.op == op && (row.input == input || row.input == TN_OP_MANY)) return &row;
  }
  return nullptr;
}

std::optional<Expression> parsed(std::string_view text) { return ExpressionReader(text).whole(); }

uint64_t gradients_read(const Expression& expression) noexcept {
  uint64_t out = expression.kind == Expression::Kind::gradient ? uint64_t{1} << expression.index : 0;
  for (const Expression& argument : expression.arguments) out |= gradients_read(argument);
  return out;
}

}  // namespace tenon::conform
