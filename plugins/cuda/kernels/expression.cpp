// SPDX-License-Identifier: Apache-2.0
// expression.cpp: an op as a C++ expression over its arguments.
#include "expression.hpp"

#include "literal.hpp"

#include <cmath>
#include <vector>

namespace tenon::cuda {

using author::attribute_f64;
using author::attribute_i64;

namespace {

// Whether halves in give a half without rounding: the EXACT rows of ops.def.
constexpr bool is_exact(uint32_t op) noexcept {
  constexpr int EXACT = 0, ROUND = 1, MATH = 2, SUM = 3;
  switch (op) {
#define TN_OP(number, name, version, least, most, outputs, family, dtypes, shape, tolerance, attributes, \
              doc)                                                                                       \
  case number:                                                                                           \
    return tolerance == EXACT;
#include <tenon/ops.def>
    default:
      static_cast<void>(ROUND + MATH + SUM);
      return false;
  }
}

std::string call(std::string_view function, std::span<const std::string> arguments) {
  std::string out(function);
  for (size_t i = 0; i < arguments.size(); ++i) out += (i == 0 ? "(" : ", ") + arguments[i];
  return out + ")";
}

std::string rounded(const std::string& expression, uint32_t dtype) {
  return is_half(dtype) ? std::string("rounded<") + stored_type(dtype) + ">(" + expression + ")" : expression;
}

// A number as an argument: attributes are i64 or f64.
std::string spelled(const tn_attribute& attribute) {
  return attribute.kind == TN_ATTRIBUTE_F64 ? literal(attribute.f64) : std::to_string(attribute.i64);
}

std::string key_of(const tn_node& node) {
  return std::to_string(static_cast<uint64_t>(*attribute_i64(node, "key"))) + "ull";
}

}  // namespace

bool is_computed(uint32_t op) noexcept {
  const std::string_view family = author::op_row(op).family;
  return family == "UNARY" || family == "BINARY" || family == "TERNARY" || family == "RANDOM";
}

std::string expression(const tn_node& node, std::span<const std::string> arguments, uint32_t from,
                       uint32_t to) {
  std::vector<std::string> all(arguments.begin(), arguments.end());
  const std::string type = std::string("<") + register_type(to) + ">";
  switch (node.op) {
    case TN_OP_cast:
      return from == to ? all[0] : std::string("cast<") + stored_type(to) + ">(" + all[0] + ")";
    case TN_OP_advance:
      all.push_back(literal(to, static_cast<uint64_t>(*attribute_i64(node, "by"))));
      return call("add" + type, all);
    case TN_OP_dropout: {
      const double rate = *attribute_f64(node, "rate");
      all.push_back(key_of(node));
      all.push_back(std::to_string(static_cast<uint64_t>(std::ceil(rate * 0x1p32))) + "ull");
      all.push_back(literal(1 / (1 - rate)));
      return rounded(call("dropout", all), to);
    }
    case TN_OP_random_uniform:
    case TN_OP_random_normal:
      all.push_back(key_of(node));
      return rounded(call(std::string(author::op_name(node.op)) + type, all), to);
    default:
      for (uint32_t i = 0; i < node.attribute_count; ++i) all.push_back(spelled(node.attributes[i]));
      return is_exact(node.op) ? call(author::op_name(node.op), all)
                               : rounded(call(author::op_name(node.op), all), to);
  }
}

const char* fold_of(uint32_t op) noexcept {
  switch (op) {
    case TN_OP_reduce_max:
      return "Greatest";
    case TN_OP_reduce_min:
      return "Least";
    case TN_OP_reduce_prod:
      return "Product";
    case TN_OP_argmax:
      return "First";
    default:
      return "Sum";
  }
}

std::string folded(uint32_t op, const std::string& part, uint32_t from, int64_t count) {
  if (op == TN_OP_argmax) return part + ".at";
  if (op == TN_OP_mean)
    return rounded(
        "div(" + part + ", static_cast<" + register_type(from) + ">(" + std::to_string(count) + "ull))",
        from);
  return rounded(part, from);
}

}  // namespace tenon::cuda
