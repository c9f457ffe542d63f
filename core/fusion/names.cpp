// SPDX-License-Identifier: Apache-2.0
// names.cpp: nodes by the names of what they make.
#include "fusion/names.hpp"

#include "base/text.hpp"

namespace tenon::fusion {
namespace {

constexpr size_t shown = 4;  // nodes of a long list

std::string_view name_of(const Graph& graph, uint32_t node) {
  for (const uint32_t value : graph.nodes()[node].outputs) {
    if (value != TN_ABSENT) return graph.values()[value].name;
  }
  return "";
}

}  // namespace

std::string called(const Graph& graph, uint32_t node) {
  std::string out(name(graph.nodes()[node].op));
  const std::string_view made = name_of(graph, node);
  return made.empty() ? out + " (node " + std::to_string(node) + ")" : out + " '" + std::string(made) + "'";
}

std::string called(const Graph& graph, std::span<const uint32_t> nodes) {
  std::string out;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (nodes.size() > shown && i == shown - 1) {
      out += " + … " + std::to_string(nodes.size() - shown) + " more";
      i = nodes.size() - 1;
    }
    if (i > 0) out += " + ";
    out += called(graph, nodes[i]);
  }
  return out;
}

bool matches(std::string_view pattern, std::string_view name) noexcept {
  size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == name;
  if (!name.starts_with(pattern.substr(0, star))) return false;
  name.remove_prefix(star);
  for (;;) {
    pattern.remove_prefix(star + 1);
    star = pattern.find('*');
    if (star == std::string_view::npos) return name.ends_with(pattern);
    const size_t at = name.find(pattern.substr(0, star));
    if (at == std::string_view::npos) return false;
    name.remove_prefix(at + star);
  }
}

Result<std::vector<uint32_t>> nodes_named(const Graph& graph, std::string_view word, std::string_view where) {
  std::vector<uint32_t> nodes;
  std::vector<std::string_view> names;
  for (uint32_t node = 0; node < graph.nodes().size(); ++node) {
    bool named = false;
    for (const uint32_t value : graph.nodes()[node].outputs) {
      if (value == TN_ABSENT) continue;
      names.push_back(graph.values()[value].name);
      named = named || matches(word, names.back());
    }
    if (named) nodes.push_back(node);
  }
  if (!nodes.empty()) return nodes;
  return Status(TN_INVALID, std::string(where) + ": no node makes a value called " + base::quoted(word) +
                                base::did_you_mean(word, names));
}

}  // namespace tenon::fusion
