// SPDX-License-Identifier: Apache-2.0
// options.cpp: see options.hpp.
#include "strategy/options.hpp"

#include "base/text.hpp"
#include "strategy/values.hpp"

#include <algorithm>

namespace tenon::strategy {
namespace {

constexpr double above_zero = Strategy::above_zero;

constexpr Option rows[] = {
#define TN_OPTION(section, type, member, name, aliases, standard, documents, least, most, reader, detail, \
                  what, when, why)                                                                        \
  {#section,                                                                                              \
   name,                                                                                                  \
   aliases,                                                                                               \
   documents,                                                                                             \
   least,                                                                                                 \
   most,                                                                                                  \
   Reader::reader,                                                                                        \
   detail,                                                                                                \
   [](Strategy& into, const toml::node& value, const Option& option) {                                    \
     return read(value, into.member, {option.low, option.high});                                          \
   },                                                                                                     \
   [](const Strategy& of) { return word(of.member); }},
#include <tenon/strategy.def>
#undef TN_OPTION
};

bool is_called(const Option& option, std::string_view name) {
  if (option.name == name) return true;
  const auto aliases = words(option.aliases);
  return std::find(aliases.begin(), aliases.end(), name) != aliases.end();
}

// Ways in which `word` may be TOML, the plainest first.
std::vector<std::string> spellings(std::string_view word) {
  std::vector<std::string> out{std::string(word)};
  if (word == "1" || word == "True") out.emplace_back("true");
  if (word == "0" || word == "False") out.emplace_back("false");
  out.push_back(base::json_quoted(word));
  std::vector<std::string> names;
  for (const std::string& name : base::split(word, ',')) names.push_back(base::json_quoted(base::trim(name)));
  out.push_back("[" + base::join(names, ", ") + "]");
  return out;
}

}  // namespace

std::span<const Option> options() noexcept { return rows; }

const Option* find(std::string_view name) {
  const auto* found = std::find_if(std::begin(rows), std::end(rows),
                                   [&](const Option& option) { return is_called(option, name); });
  return found == std::end(rows) ? nullptr : found;
}

std::vector<std::string_view> all_names() {
  std::vector<std::string_view> out;
  for (const Option& option : rows) {
    out.push_back(option.name);
    for (const std::string_view alias : words(option.aliases)) out.push_back(alias);
  }
  return out;
}

std::vector<std::string_view> words(std::string_view list) {
  std::vector<std::string_view> out;
  while (!list.empty()) {
    const size_t end = std::min(list.find(' '), list.size());
    if (end != 0) out.push_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return out;
}

std::string read_word(Strategy& into, const Option& option, std::string_view word) {
  std::string wanted;
  for (const std::string& spelling : spellings(base::trim(word))) {
    const auto table = base::parse_toml("", "value = " + spelling);
    if (!table.ok() || (*table).size() != 1) continue;
    const std::string why = option.read(into, *(*table).get("value"), option);
    if (why.empty()) return "";
    wanted = why;
  }
  return wanted;
}

}  // namespace tenon::strategy
