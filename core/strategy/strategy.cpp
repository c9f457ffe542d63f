// SPDX-License-Identifier: Apache-2.0
// strategy.cpp: where values come from, one source after the other, and where they are written.
//
// Invariant: a source is taken whole or not at all: what reads works on a copy.
#include <tenon/strategy.hpp>

#include "base/file.hpp"
#include "base/text.hpp"
#include "strategy/access.hpp"

#include <algorithm>
#include <sstream>

namespace tenon {
namespace {

using strategy::Option;
using strategy::options;
using Access = Strategy::Access;

constexpr uint64_t largest_file = 1 << 20;
constexpr std::string_view presets[] = {"tenon", "documents"};
constexpr std::string_view preset_mark = "preset ";
// Headings of the documents, and one for FLAGS_…; those of strategy.def are taken from there.
constexpr std::string_view foreign_sections[] = {"DistributedStrategy", "BuildStrategy",
                                                 "build_strategy",      "ExecutionStrategy",
                                                 "execution_strategy",  "environment"};

std::string shown(const toml::node& value) {
  std::ostringstream text;
  value.visit([&](const auto& node) { text << node; });
  return base::printable(text.str(), 80);
}

std::vector<std::string_view> sections() {
  std::vector<std::string_view> out;
  for (const Option& option : options()) {
    if (out.empty() || out.back() != option.section) out.push_back(option.section);
  }
  out.insert(out.end(), std::begin(foreign_sections), std::end(foreign_sections));
  return out;
}

bool is_section(std::string_view key) {
  const auto known = sections();
  return std::find(known.begin(), known.end(), key) != known.end();
}

Status unknown(const std::string& origin, const std::string& place, std::string_view key) {
  std::vector<std::string_view> known = strategy::all_names();
  for (const std::string_view section : sections()) known.push_back(section);
  known.emplace_back("preset");
  return Status(TN_INVALID, origin + ": unknown key '" + place + base::printable(key, 64) + "'" +
                                base::did_you_mean(key, known));
}

// Reads a file's tables into a strategy.
class FileReader {
 public:
  FileReader(Strategy& into, std::string origin) : into_(into), origin_(std::move(origin)) {}

  Status read(const toml::table& root) {
    if (const toml::node* preset = root.get("preset")) {
      const Status taken = Access::preset(into_, preset->value_exact<std::string>().value_or(""));
      if (!taken.ok())
        return Status(TN_INVALID,
                      origin_ + ": preset = " + shown(*preset) + ": " + std::string(taken.message()));
    }
    return read_table(root, "");
  }

 private:
  Status read_table(const toml::table& table, const std::string& section) {
    for (const auto& [given, value] : table) {
      const std::string key(given.str());
      if (section.empty() && key == "preset") continue;
      const toml::table* inner = value.as_table();
      if (inner != nullptr && is_section(key)) {
        TN_TRY(read_table(*inner, section + key + "."));
        continue;
      }
      TN_TRY(read_option(section, key, value));
    }
    return {};
  }

  Status read_option(const std::string& section, const std::string& key, const toml::node& value) {
    const Option* const option = strategy::find(key);
    const std::string called = section + base::printable(key, 64);
    if (option == nullptr && is_section(key))
      return Status(TN_INVALID,
                    origin_ + ": " + called + " = " + shown(value) + " is not a table: write [" + key + "]");
    if (option == nullptr) return unknown(origin_, section, key);
    const auto [before, is_first] = seen_.emplace(option, called);
    if (!is_first)
      return Status(TN_INVALID, origin_ + ": " + called + " and " + before->second + " are both " +
                                    std::string(option->name) + ": write one of them");
    const std::string wanted = option->read(into_, value, *option);
    if (!wanted.empty())
      return Status(TN_INVALID, origin_ + ": " + called + " = " + shown(value) + " is not " + wanted);
    Access::mark(into_, *option, origin_);
    return {};
  }

  Strategy& into_;
  std::string origin_;
  std::map<const Option*, std::string> seen_;
};

Status set_word(Strategy& into, const Option& option, std::string_view name, std::string_view value,
                const std::string& by) {
  const std::string wanted = strategy::read_word(into, option, value);
  if (!wanted.empty())
    return Status(TN_INVALID, std::string(name) + " is " + base::quoted(value, 80) + ", not " + wanted);
  Access::mark(into, option, by);
  return {};
}

std::string capitals(std::string_view name) {
  std::string out(name);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
  return out;
}

// FLAGS_… in this order, then TENON_….
std::vector<std::string> variables(const Option& option) {
  std::vector<std::string> out;
  for (const std::string_view alias : strategy::words(option.aliases)) {
    if (alias.starts_with("FLAGS_")) out.emplace_back(alias);
  }
  out.push_back("TENON_" + capitals(option.name));
  return out;
}

std::string section_text(const Strategy& strategy, std::string_view section) {
  size_t longest = 0;
  for (const Option& option : options()) {
    if (option.section == section) longest = std::max(longest, option.name.size());
  }
  std::string out = "[" + std::string(section) + "]\n";
  for (const Option& option : options()) {
    if (option.section != section) continue;
    std::string line(option.name);
    line.resize(longest + 1, ' ');
    out += line + "= " + option.word(strategy) + "\n";
  }
  return out;
}

}  // namespace

void Strategy::Access::mark(Strategy& strategy, const Option& option, std::string by) {
  strategy.marks_.resize(options().size());
  strategy.marks_[static_cast<size_t>(&option - options().data())] = {std::move(by), option.word(strategy)};
}

std::string Strategy::Access::who(const Strategy& strategy, const Option& option) {
  const auto i = static_cast<size_t>(&option - options().data());
  const Mark* const mark =
      i < strategy.marks_.size() && !strategy.marks_[i].by.empty() ? &strategy.marks_[i] : nullptr;
  const std::string before = mark != nullptr ? mark->value : option.word(Strategy{});
  if (option.word(strategy) != before) return "code";
  return mark != nullptr ? mark->by : "default";
}

Status Strategy::Access::take(Strategy& strategy, const base::Environment& environment) {
  Strategy next = strategy;
  for (const Option& option : options()) {
    for (const std::string& variable : variables(option)) {
      if (const auto value = environment.get(variable))
        TN_TRY(set_word(next, option, variable, *value, variable));
    }
  }
  strategy = std::move(next);
  return {};
}

Status Strategy::Access::preset(Strategy& strategy, std::string_view name) {
  if (std::find(std::begin(presets), std::end(presets), name) == std::end(presets))
    return Status(TN_NOT_FOUND, "no preset is called " + base::quoted(name) +
                                    base::did_you_mean(name, presets) + ": there are tenon and documents");
  const Strategy standard;
  for (const Option& option : options()) {
    const std::string by = who(strategy, option);
    if (by != "default" && !by.starts_with(preset_mark)) continue;
    const bool theirs = name == "documents" && !option.documents.empty();
    const std::string value = theirs ? std::string(option.documents) : option.word(standard);
    TN_TRY(set_word(strategy, option, option.name, value,
                    theirs ? std::string(preset_mark) + std::string(name) : ""));
  }
  return {};
}

Result<Strategy> Strategy::preset(std::string_view name) {
  Strategy strategy;
  TN_TRY(Access::preset(strategy, name));
  return strategy;
}

Result<Strategy> Strategy::parse(std::string_view text, const std::string& origin) {
  Strategy strategy;
  TN_TRY(strategy.read(text, origin));
  return strategy;
}

Result<Strategy> Strategy::load(const std::string& path) {
  Strategy strategy;
  TN_TRY(strategy.read_file(path));
  return strategy;
}

Status Strategy::read(std::string_view text, const std::string& origin) {
  const toml::table root = TN_TRY(base::parse_toml(origin, text));
  Strategy next = *this;
  TN_TRY(FileReader(next, origin).read(root));
  *this = std::move(next);
  return {};
}

Status Strategy::read_file(const std::string& path) {
  return read(TN_TRY(base::read_file(path, largest_file)), path);
}

Status Strategy::set(std::string_view name, std::string_view value, const std::string& by) {
  const Option* const option = strategy::find(name);
  if (option == nullptr) {
    const auto known = strategy::all_names();
    return Status(TN_NOT_FOUND,
                  "no option is called " + base::quoted(name) + base::did_you_mean(name, known));
  }
  return set_word(*this, *option, name, value, by);
}

Status Strategy::take_environment() { return Access::take(*this, base::Environment::of_process()); }

std::string Strategy::text() const {
  std::string out;
  std::string_view last;
  for (const Option& option : options()) {
    if (option.section == last) continue;
    out += (out.empty() ? "" : "\n") + section_text(*this, option.section);
    last = option.section;
  }
  return out;
}

Status Strategy::check() const {
  Strategy copy = *this;
  for (const Option& option : options()) TN_TRY(set_word(copy, option, option.name, option.word(*this), ""));
  return {};
}

Status Strategy::save(const std::string& path) const {
  TN_TRY(check());
  return base::write_file(path, text());
}

}  // namespace tenon
