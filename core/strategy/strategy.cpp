// SPDX-License-Identifier: Apache-2.0
// strategy.cpp: the keys of a strategy, read and written by one table.
//
// Invariant: a key stands in the table once, so what is read is what is written.
#include <tenon/strategy.hpp>

#include "base/file.hpp"
#include "base/text.hpp"
#include "base/toml.hpp"

#include <algorithm>
#include <sstream>

namespace tenon {
namespace {

constexpr uint64_t largest_file = 1 << 20;

using Names = std::vector<std::string>;

std::string shown(const toml::node& value) {
  std::ostringstream text;
  value.visit([&](const auto& node) { text << node; });
  return base::printable(text.str(), 80);
}

// Reading one value: what it must be when it is not, "" when all is well.
std::string read(const toml::node& value, bool& into) {
  const auto given = value.value_exact<bool>();
  if (!given) return "true or false";
  into = *given;
  return "";
}

std::string read(const toml::node& value, uint32_t& into) {
  const auto given = value.value_exact<int64_t>();
  if (!given || *given < 1 || *given > UINT32_MAX) return "a whole number from 1 on";
  into = static_cast<uint32_t>(*given);
  return "";
}

// Microseconds in a file, nanoseconds in the struct.
std::string read(const toml::node& value, double& into) {
  const auto given = value.value<double>();
  if (!given || !(*given >= 0) || *given > 1e12) return "a time in microseconds, not negative";
  into = *given * 1000;
  return "";
}

std::string read(const toml::node& value, Names& into) {
  constexpr const char* wanted = "a list of names in double quotes";
  const toml::array* list = value.as_array();
  if (list == nullptr) return wanted;
  into.clear();
  for (const toml::node& item : *list) {
    const auto name = item.value_exact<std::string>();
    if (!name || name->empty()) return wanted;
    into.push_back(*name);
  }
  return "";
}

std::string read(const toml::node& value, std::vector<Names>& into) {
  constexpr const char* wanted = "a list of lists of names: [[\"a\", \"b\"]]";
  const toml::array* list = value.as_array();
  if (list == nullptr) return wanted;
  into.clear();
  for (const toml::node& item : *list) {
    if (!read(item, into.emplace_back()).empty()) return wanted;
  }
  return "";
}

std::string word(bool value) { return value ? "true" : "false"; }
std::string word(uint32_t value) { return std::to_string(value); }
std::string word(double ns) {
  std::ostringstream text;
  text << ns / 1000;
  return text.str();
}
std::string word(const std::string& name) { return base::json_quoted(name); }
template <class Item>
std::string word(const std::vector<Item>& items) {
  std::vector<std::string> words;
  for (const Item& item : items) words.push_back(word(item));
  return "[" + base::join(words, ", ") + "]";
}

// Every key with its member.
template <class Fusion, class Use>
void for_fusion(Fusion& fusion, Use&& use) {
  use("elementwise", fusion.elementwise);
  use("patterns", fusion.patterns);
  use("optimizers", fusion.optimizers);
  use("off", fusion.off);
  use("must_fuse", fusion.must_fuse);
  use("never_fuse", fusion.never_fuse);
  use("max_nodes", fusion.max_nodes);
  use("min_gain_us", fusion.min_gain_ns);
}

Status unknown(const std::string& origin, const std::string& prefix, std::string_view key,
               const std::vector<std::string_view>& known) {
  return Status(TN_INVALID, origin + ": unknown key '" + prefix + base::printable(key, 64) + "'" +
                                base::did_you_mean(key, known));
}

Status read_fusion(const std::string& origin, const toml::table& table, FusionOptions& fusion) {
  std::vector<std::string_view> known;
  std::string mistake;
  for_fusion(fusion, [&](std::string_view key, auto& member) {
    known.push_back(key);
    const toml::node* value = table.get(key);
    if (value == nullptr || !mistake.empty()) return;
    const std::string wanted = read(*value, member);
    if (!wanted.empty())
      mistake = origin + ": fusion." + std::string(key) + " = " + shown(*value) + " is not " + wanted;
  });
  if (!mistake.empty()) return Status(TN_INVALID, mistake);
  for (const auto& [key, value] : table) {
    if (std::find(known.begin(), known.end(), key.str()) == known.end())
      return unknown(origin, "fusion.", key.str(), known);
  }
  return {};
}

}  // namespace

Result<Strategy> Strategy::parse(std::string_view text, const std::string& origin) {
  const toml::table root = TN_TRY(base::parse_toml(origin, text));
  Strategy strategy;
  for (const auto& [key, value] : root) {
    if (key.str() != "fusion") return unknown(origin, "", key.str(), {"fusion"});
    const toml::table* table = value.as_table();
    if (table == nullptr)
      return Status(TN_INVALID, origin + ": fusion = " + shown(value) + " is not a table: write [fusion]");
    TN_TRY(read_fusion(origin, *table, strategy.fusion));
  }
  return strategy;
}

Result<Strategy> Strategy::load(const std::string& path) {
  return parse(TN_TRY(base::read_file(path, largest_file)), path);
}

std::string Strategy::text() const {
  std::string out = "[fusion]\n";
  for_fusion(fusion, [&](const char* key, const auto& member) {
    std::string line = key;
    line.resize(std::max<size_t>(line.size(), 12), ' ');
    out += line + "= " + word(member) + "\n";
  });
  return out;
}

}  // namespace tenon
