// SPDX-License-Identifier: Apache-2.0
// gradient_rules.cpp: see gradient_rules.hpp. The language is described at the head of gradients.def.
#include "graph/gradient_rules.hpp"

#include "graph/scanner.hpp"

#include <algorithm>
#include <charconv>

namespace tenon::graph {
namespace {

using Kind = Expression::Kind;

constexpr int deepest = 32;

// "x0", "y1", "dy0"
bool is_reference(std::string_view word, std::string_view letters, uint32_t& index) {
  if (!word.starts_with(letters) || word.size() == letters.size()) return false;
  const char* const first = word.data() + letters.size();
  const char* const last = word.data() + word.size();
  const auto read = std::from_chars(first, last, index);
  return read.ec == std::errc() && read.ptr == last;
}

class Reader {
 public:
  explicit Reader(std::string_view text) : scan_(text) {}

  Result<Expression> run() {
    Expression out = TN_TRY(expression(0));
    TN_TRY(scan_.expect_line_end("the expression"));
    return out;
  }

 private:
  Result<Expression> expression(int depth) {
    if (depth == deepest) return scan_.fail("it is nested too deep");
    const char next = scan_.peek();
    Expression out;
    const size_t start = scan_.at();
    if (next == '-' || (next >= '0' && next <= '9')) {
      const Number read = TN_TRY(scan_.number("a number"));
      out.kind = Kind::number;
      out.number = std::visit([](auto value) { return static_cast<double>(value); }, read);
      return out;
    }
    out.word = scan_.word();
    if (out.word.empty()) return scan_.expected("an expression");
    if (scan_.take('(')) {
      TN_TRY(call(out, start, depth));
    } else if (is_reference(out.word, "x", out.index)) {
      out.kind = Kind::input;
    } else if (is_reference(out.word, "y", out.index)) {
      out.kind = Kind::output;
    } else if (is_reference(out.word, "dy", out.index)) {
      out.kind = Kind::gradient;
    }
    return out;
  }

  Status call(Expression& out, size_t start, int depth) {
    out.kind = Kind::call;
    do out.arguments.push_back(TN_TRY(expression(depth + 1)));
    while (scan_.take(','));
    TN_TRY(scan_.expect(')', "or ',' after an argument"));
    size_t end = scan_.at();
    if (scan_.take('{')) {
      do out.attributes.push_back(TN_TRY(attribute(depth + 1)));
      while (scan_.take(','));
      TN_TRY(scan_.expect('}', "or ',' after an attribute"));
      end = scan_.at();
    }
    out.text = scan_.text().substr(start, end - start);
    if (!scan_.take('.')) return {};
    out.index = static_cast<uint32_t>(TN_TRY(scan_.whole_number("the number of an output")));
    return {};
  }

  Result<AttributeRule> attribute(int depth) {
    AttributeRule out{.name = std::string(scan_.word()), .source = {}};
    if (out.name.empty()) return scan_.expected("the name of an attribute");
    if (scan_.take('='))
      out.source.push_back(TN_TRY(expression(depth)));
    else
      out.source.push_back({.word = out.name});
    return out;
  }

  Scanner scan_;
};

void collect(const Expression& expression, std::vector<uint32_t>& gradients) {
  if (expression.kind == Kind::gradient) gradients.push_back(expression.index);
  for (const Expression& argument : expression.arguments) collect(argument, gradients);
}

struct Table {
  std::vector<Rule> rules{};
  std::string mistake{};

  void add(Op op, uint32_t input, std::string_view text) {
    auto read = expression_from(text);
    if (!read.ok() && mistake.empty())
      mistake = "gradients.def: " + std::string(name(op)) + ", input " + std::to_string(input) + ": " +
                std::string(read.message());
    if (!read.ok()) return;
    Rule& rule = rules.emplace_back(Rule{.op = op, .input = input, .expression = std::move(read).take()});
    collect(rule.expression, rule.gradients);
  }
};

const Table& table() {
  static const Table read = [] {
    Table out;
#define TN_GRADIENT(op, input, expression) out.add(Op::op, input, expression);
#include <tenon/gradients.def>
    std::stable_sort(out.rules.begin(), out.rules.end(),
                     [](const Rule& a, const Rule& b) { return a.op < b.op; });
    return out;
  }();
  return read;
}

}  // namespace

bool Rule::reads(uint32_t gradient) const noexcept {
  return std::find(gradients.begin(), gradients.end(), gradient) != gradients.end();
}

std::span<const Rule> gradient_rules() { return table().rules; }

const Rule* gradient_rule(Op op, uint32_t input) {
  const std::vector<Rule>& rules = table().rules;
  auto rule = std::lower_bound(rules.begin(), rules.end(), op, [](const Rule& a, Op b) { return a.op < b; });
  for (; rule != rules.end() && rule->op == op; ++rule) {
    if (rule->input == input || rule->input == TN_OP_MANY) return &*rule;
  }
  return nullptr;
}

Status rules_status() { return table().mistake.empty() ? Status() : Status(TN_INTERNAL, table().mistake); }

Result<Expression> expression_from(std::string_view text) { return Reader(text).run(); }

}  // namespace tenon::graph
