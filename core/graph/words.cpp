// SPDX-License-Identifier: Apache-2.0
// words.cpp: see words.hpp.
#include "graph/words.hpp"

#include "base/text.hpp"

#include <array>
#include <charconv>
#include <cmath>

namespace tenon::graph {
namespace {

constexpr size_t longest_name = 256;

template <class Number>
std::string list(const std::vector<Number>& values) {
  std::string out = "[";
  for (const Number value : values) {
    if (out.size() > 1) out += ',';
    if constexpr (std::is_same_v<Number, double>)
      out += words(value);
    else
      out += std::to_string(value);
  }
  return out + "]";
}

std::string escaped(const std::string& text) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      out += {'\\', c};
    else if (byte < 0x20 || byte == 0x7F)
      out += {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
    else
      out += c;
  }
  return out + '"';
}

}  // namespace

std::string words(const Dims& dims) { return list(dims); }

std::string words(const TensorSpec& spec) { return std::string(name(spec.dtype)) + words(spec.dims); }

std::string words(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  std::string out(digits.data(), end);
  return out.find_first_of(".e") == std::string::npos ? out + ".0" : out;
}

std::string words(const AttributeValue& value) {
  struct Writer {
    std::string operator()(int64_t number) const { return std::to_string(number); }
    std::string operator()(double number) const { return words(number); }
    std::string operator()(const std::vector<int64_t>& numbers) const { return list(numbers); }
    std::string operator()(const std::vector<double>& numbers) const { return list(numbers); }
    std::string operator()(const std::string& text) const { return escaped(text); }
    std::string operator()(DType dtype) const { return std::string(name(dtype)); }
  };
  return std::visit(Writer{}, value);
}

bool is_name_character(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
         c == '/' || c == '-';
}

std::string why_no_name(std::string_view name) {
  if (name.empty()) return "a name is empty";
  if (name.size() > longest_name)
    return "the name " + base::quoted(name, 32) + " is longer than " + base::counted(longest_name, "byte");
  for (const char c : name) {
    if (!is_name_character(c))
      return "the name " + base::quoted(name, 64) + " may hold letters, digits and any of \"_./-\" only";
  }
  return {};
}

}  // namespace tenon::graph
