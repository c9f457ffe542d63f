// SPDX-License-Identifier: Apache-2.0
// values.cpp: see values.hpp.
#include "strategy/values.hpp"

#include "base/text.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace tenon::strategy {
namespace {

std::string figure(double number) {
  std::array<char, 32> digits{};  // as many as it takes to be read back as the same
  std::string out(digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr);
  // From there on digits alone would be another number, taken as a whole one.
  if (number >= 0x1p53 && out.find_first_of(".e") == std::string::npos) out += ".0";
  return out;
}

std::string bounds(Range range, bool is_open) {
  if (range.low == Strategy::above_zero)
    return " above 0" + (is_open ? "" : " and at most " + figure(range.high));
  return " from " + figure(range.low) + (is_open ? " on" : " to " + figure(range.high));
}

std::string whole(Range range) { return "a whole number" + bounds(range, range.high >= UINT32_MAX); }

bool is_auto(const toml::node& value) { return value.value_exact<std::string>() == "auto"; }

// A value that may be left to Tenon.
template <class T>
std::string read_auto(const toml::node& value, std::optional<T>& into, Range range) {
  if (is_auto(value)) {
    into.reset();
    return "";
  }
  T given{};
  const std::string wanted = read(value, given, range);
  if (!wanted.empty()) return "\"auto\" or " + wanted;
  into = given;
  return "";
}

template <class T>
std::string word_auto(const std::optional<T>& value) {
  return value ? word(*value) : "\"auto\"";
}

template <class Item>
std::string listed(const std::vector<Item>& items) {
  std::vector<std::string> words;
  for (const Item& item : items) words.push_back(word(item));
  return "[" + base::join(words, ", ") + "]";
}

// Whether a list may name two nodes; a graph says whether it does.
bool may_be_several(const Strategy::Names& names) {
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    return name != names.front() || name.find('*') != std::string::npos;
  });
}

// All items of a list, or nothing of it.
template <class Item>
bool read_list(const toml::node& value, std::vector<Item>& into) {
  const toml::array* list = value.as_array();
  if (list == nullptr) return false;
  std::vector<Item> items;
  for (const toml::node& item : *list) {
    if (!read(item, items.emplace_back(), {}).empty()) return false;
  }
  into = std::move(items);
  return true;
}

}  // namespace

std::string read(const toml::node& value, bool& into, Range) {
  const auto given = value.value_exact<bool>();
  if (!given) return "true or false";
  into = *given;
  return "";
}

std::string read(const toml::node& value, uint32_t& into, Range range) {
  const auto given = value.value_exact<int64_t>();
  if (!given || static_cast<double>(*given) < range.low || static_cast<double>(*given) > range.high)
    return whole(range);
  into = static_cast<uint32_t>(*given);
  return "";
}

std::string read(const toml::node& value, double& into, Range range) {
  const auto given = value.value<double>();
  if (!given || !value.is_number() || !(*given >= range.low && *given <= range.high))
    return "a number" + bounds(range, false);
  into = *given;
  return "";
}

std::string read(const toml::node& value, std::string& into, Range) {
  const auto given = value.value_exact<std::string>();
  if (!given || given->empty()) return "a name in double quotes";
  into = *given;
  return "";
}

std::string read(const toml::node& value, Strategy::AutoBool& into, Range range) {
  return read_auto(value, into, range);
}
std::string read(const toml::node& value, Strategy::AutoCount& into, Range range) {
  return read_auto(value, into, range);
}

std::string read(const toml::node& value, Strategy::Names& into, Range) {
  return read_list(value, into) ? "" : "a list of names in double quotes";
}
std::string read(const toml::node& value, Strategy::Groups& into, Range) {
  Strategy::Groups groups;
  if (!read_list(value, groups) || !std::all_of(groups.begin(), groups.end(), may_be_several))
    return "a list of lists of names, two or more in each or one with a *: [[\"a\", \"b\"]]";
  into = std::move(groups);
  return "";
}

std::string read(const toml::node& value, Strategy::Level& into, Range) {
  const auto given = value.value_exact<std::string>();
  if (given != "O1" && given != "O2") return "\"O1\" or \"O2\"";
  into = given == "O1" ? Strategy::Level::O1 : Strategy::Level::O2;
  return "";
}

std::string read(const toml::node& value, DType& into, Range) {
  const auto given = value.value_exact<std::string>();
  const bool is_f16 = given == "f16" || given == "fp16" || given == "float16";
  if (!is_f16 && given != "bf16" && given != "bfloat16") return "\"bf16\" or \"f16\"";
  into = is_f16 ? f16 : bf16;
  return "";
}

std::string read(const toml::node& value, BucketRule& into, Range) {
  const auto rule = bucket_rule_from(value.value_exact<std::string>().value_or(""));
  if (!rule.ok()) return "a mode: " + std::string(rule.message());
  into = *rule;
  return "";
}

std::string word(bool value) { return value ? "true" : "false"; }
std::string word(uint32_t value) { return std::to_string(value); }
std::string word(double value) { return figure(value); }
std::string word(const std::string& value) { return base::json_quoted(value); }
std::string word(const Strategy::AutoBool& value) { return word_auto(value); }
std::string word(const Strategy::AutoCount& value) { return word_auto(value); }
std::string word(const Strategy::Names& value) { return listed(value); }
std::string word(const Strategy::Groups& value) { return listed(value); }
std::string word(Strategy::Level value) { return value == Strategy::Level::O1 ? "\"O1\"" : "\"O2\""; }
std::string word(DType value) { return word(std::string(name(value))); }
std::string word(BucketRule value) { return word(std::string(name(value))); }

}  // namespace tenon::strategy
