// SPDX-License-Identifier: Apache-2.0
// definitions.cpp: see definitions.hpp. The rest of the text is read loosely: %names before '=' are made by a line, those
// after it are needed by it.
#include "graph/definitions.hpp"

#include "base/text.hpp"
#include "graph/words.hpp"

#include <algorithm>
#include <map>
#include <vector>

namespace tenon::graph {
namespace {

struct Line {
  size_t number = 0;
  std::vector<std::string> needs{};
};

// Which line makes each value, from the statement at `at` on.
class Definitions {
 public:
  Definitions(std::string_view text, size_t at) {
    auto number = 1 + static_cast<size_t>(
                          std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
    for (text.remove_prefix(at); !text.empty(); ++number) {
      const size_t end = std::min(text.find('\n'), text.size());
      read(text.substr(0, end), number);
      text.remove_prefix(std::min(end + 1, text.size()));
    }
  }

  const Line* maker_of(const std::string& name) const {
    const auto found = makers_.find(name);
    return found == makers_.end() ? nullptr : &lines_[found->second];
  }

  // Values from `name` to one that line `number` makes, each needing the next; empty where there is no such way.
  std::vector<std::string> way(const std::string& name, size_t number) const {
    std::map<std::string, std::string> from{{name, ""}};
    std::vector<std::string> next{name};
    while (!next.empty()) {
      const std::string at = next.back();
      next.pop_back();
      const Line* maker = maker_of(at);
      if (maker == nullptr) continue;
      if (maker->number == number) {
        std::vector<std::string> steps;
        for (std::string step = at; !step.empty(); step = from[step]) steps.insert(steps.begin(), step);
        return steps;
      }
      for (const std::string& needed : maker->needs) {
        if (from.emplace(needed, at).second) next.push_back(needed);
      }
    }
    return {};
  }

 private:
  void read(std::string_view line, size_t number) {
    line = line.substr(0, line.find('#'));
    const size_t equals = line.find('=');
    if (line.find("output ") == line.find_first_not_of(" \t")) return;
    Line& made = lines_.emplace_back(Line{.number = number});
    for (size_t at = line.find('%'); at != std::string_view::npos; at = line.find('%', at + 1)) {
      size_t end = at + 1;
      while (end < line.size() && is_name_character(line[end])) ++end;
      std::string name(line.substr(at + 1, end - at - 1));
      if (name.empty()) continue;
      if (at < equals)
        makers_.emplace(std::move(name), lines_.size() - 1);
      else
        made.needs.push_back(std::move(name));
    }
  }

  std::vector<Line> lines_{};
  std::map<std::string, size_t> makers_{};
};

}  // namespace

std::string why_not_defined(std::string_view text, size_t at, const std::string& name,
                            std::span<const std::string_view> known) {
  const Definitions later(text, at);
  const std::string value = "'" + name + "'";
  const Line* maker = later.maker_of(name);
  if (maker == nullptr)
    return "no value is called " + base::quoted(name, 64) + base::did_you_mean(name, known);
  const auto line =
      1 + static_cast<size_t>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
  const std::vector<std::string> way = later.way(name, line);
  if (way.empty())
    return value + " is made in line " + std::to_string(maker->number) + ", after its use: move that line up";
  std::string told = "a cycle: '" + way.back() + "' needs " + value;
  for (size_t i = 1; i < way.size(); ++i) told += ", which needs '" + way[i] + "'";
  return told;
}

}  // namespace tenon::graph
