// SPDX-License-Identifier: Apache-2.0
// strategy.cpp: the keys of a strategy, read and written by one table.
//
// Invariant: a key stands in the table once, so what is read is what is written.
#include <tenon/strategy.hpp>

#include "base/file.hpp"
#include "base/text.hpp"
#include "base/toml.hpp"

#include <algorithm>
#include <array>
#include <charconv>
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
std::string figure(double number) {
  std::array<char, 32> digits{};  // as many as it takes to be read back as the same
  return {digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr};
}
std::string word(double ns) { return figure(ns / 1000); }
std::string word(const std::string& name) { return base::json_quoted(name); }
template <class Item>
std::string word(const std::vector<Item>& items) {
  std::vector<std::string> words;
  for (const Item& item : items) words.push_back(word(item));
  return "[" + base::join(words, ", ") + "]";
}

// A count that may be 0, which then has a meaning of its own.
template <class Count>
struct FromZero {
  Count& value;
};
template <class Count>
FromZero(Count&) -> FromZero<Count>;

std::string read(const toml::node& value, FromZero<uint32_t> into) {
  const auto given = value.value_exact<int64_t>();
  if (!given || *given < 0 || *given > UINT32_MAX) return "a whole number from 0 on";
  into.value = static_cast<uint32_t>(*given);
  return "";
}

// A part of a whole.
template <class Number>
struct Fraction {
  Number& value;
};
template <class Number>
Fraction(Number&) -> Fraction<Number>;

std::string read(const toml::node& value, Fraction<double> into) {
  const auto given = value.value<double>();
  if (!given || !(*given > 0) || *given > 1e6) return "a positive number";
  into.value = *given;
  return "";
}

std::string read(const toml::node& value, BucketRule& into) {
  const auto given = value.value_exact<std::string>();
  const auto rule = bucket_rule_from(given ? *given : "");
  if (!rule.ok()) return "a mode: " + std::string(rule.message());
  into = *rule;
  return "";
}

std::string word(FromZero<const uint32_t> count) { return word(count.value); }
std::string word(Fraction<const double> part) { return figure(part.value); }
std::string word(BucketRule rule) { return word(std::string(name(rule))); }

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

template <class Overlap, class Use>
void for_overlap(Overlap& overlap, Use&& use) {
  use("mode", overlap.mode);
  use("fuse_all_reduce_ops", overlap.fuse_all_reduce_ops);
  use("fuse_grad_size_in_MB", FromZero{overlap.fuse_grad_size_in_mb});
  use("fuse_grad_max_layers", FromZero{overlap.fuse_grad_max_layers});
  use("nccl_comm_num", FromZero{overlap.nccl_comm_num});
  use("sync_nccl_allreduce", overlap.sync_nccl_allreduce);
  use("use_hierarchical_allreduce", overlap.use_hierarchical_allreduce);
  use("hierarchical_allreduce_inter_nranks", FromZero{overlap.hierarchical_allreduce_inter_nranks});
  use("fuse_broadcast_ops", overlap.fuse_broadcast_ops);
  use("sharded", overlap.sharded);
  use("partition_MB", FromZero{overlap.partition_mb});
  use("priority", overlap.priority);
  use("replan_drift", Fraction{overlap.replan_drift});
}

// What a key is also called: the original counts gradients under that name, not FLOPs.
constexpr std::pair<std::string_view, std::string_view> aliases[] = {
    {"fuse_grad_size_in_TFLOPS", "fuse_grad_max_layers"},
    {"_fuse_grad_size_in_TFLOPS", "fuse_grad_max_layers"}};

std::string_view key_of(std::string_view given) {
  const auto* alias = std::find_if(std::begin(aliases), std::end(aliases),
                                   [&](const auto& pair) { return pair.first == given; });
  return alias == std::end(aliases) ? given : alias->second;
}

Status unknown(const std::string& origin, const std::string& prefix, std::string_view key,
               const std::vector<std::string_view>& known) {
  return Status(TN_INVALID, origin + ": unknown key '" + prefix + base::printable(key, 64) + "'" +
                                base::did_you_mean(key, known));
}

// Reads a table whose keys `for_each` lists with their members.
template <class ForEach>
Status read_section(const std::string& origin, const std::string& section, const toml::table& table,
                    ForEach&& for_each) {
  std::vector<std::string_view> known, seen;
  for_each([&](std::string_view key, auto&&) { known.push_back(key); });
  for (const auto& entry : table) {
    const std::string_view given = entry.first.str(), key = key_of(given);
    const toml::node& value = entry.second;
    if (std::find(known.begin(), known.end(), key) == known.end())
      return unknown(origin, section + ".", given, known);
    const std::string called = origin + ": " + section + "." + std::string(given);
    if (std::find(seen.begin(), seen.end(), key) != seen.end())
      return Status(TN_INVALID, called + " is another name of " + std::string(key) + ": write one of them");
    seen.push_back(key);
    std::string wanted;
    for_each([&](std::string_view name, auto&& member) {
      if (name == key) wanted = read(value, member);
    });
    if (!wanted.empty()) return Status(TN_INVALID, called + " = " + shown(value) + " is not " + wanted);
  }
  return {};
}

template <class ForEach>
std::string section_text(const std::string& section, ForEach&& for_each) {
  size_t longest = 0;
  for_each([&](std::string_view key, auto&&) { longest = std::max(longest, key.size()); });
  std::string out = "[" + section + "]\n";
  for_each([&](std::string_view key, auto&& member) {
    std::string line(key);
    line.resize(longest + 1, ' ');
    out += line + "= " + word(member) + "\n";
  });
  return out;
}

}  // namespace

Result<Strategy> Strategy::parse(std::string_view text, const std::string& origin) {
  const toml::table root = TN_TRY(base::parse_toml(origin, text));
  Strategy strategy;
  for (const auto& [key, value] : root) {
    const std::string section(key.str());
    if (section != "fusion" && section != "overlap")
      return unknown(origin, "", section, {"fusion", "overlap"});
    const toml::table* table = value.as_table();
    if (table == nullptr)
      return Status(TN_INVALID, origin + ": " + section + " = " + shown(value) + " is not a table: write [" +
                                    section + "]");
    if (section == "fusion")
      TN_TRY(read_section(origin, section, *table, [&](auto&& use) { for_fusion(strategy.fusion, use); }));
    else
      TN_TRY(read_section(origin, section, *table, [&](auto&& use) { for_overlap(strategy.overlap, use); }));
  }
  return strategy;
}

Result<Strategy> Strategy::load(const std::string& path) {
  return parse(TN_TRY(base::read_file(path, largest_file)), path);
}

std::string Strategy::text() const {
  return section_text("fusion", [&](auto&& use) { for_fusion(fusion, use); }) + "\n" +
         section_text("overlap", [&](auto&& use) { for_overlap(overlap, use); });
}

}  // namespace tenon
