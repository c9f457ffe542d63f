// SPDX-License-Identifier: Apache-2.0
// rewriting.hpp: what the tests of passes ask of a rewritten graph, by name.
#pragma once

#include <tenon/passes.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <string_view>

namespace tenon::test {

// What a pass gave; a failure ends the test with its words.
inline passes::Rewritten done(Result<passes::Rewritten> result) {
  REQUIRE_MESSAGE(result.ok(), result.message());
  REQUIRE_MESSAGE(result->graph.check().ok(), result->graph.check().message());
  return std::move(result).take();
}

inline uint32_t index_of(const Graph& graph, std::string_view name) {
  const auto values = graph.values();
  const auto found =
      std::find_if(values.begin(), values.end(), [&](const auto& info) { return info.name == name; });
  REQUIRE_MESSAGE(found != values.end(), "no value is called " << name << " in\n" << graph.text());
  return static_cast<uint32_t>(found - values.begin());
}
inline bool has(const Graph& graph, std::string_view name) {
  const auto values = graph.values();
  return std::any_of(values.begin(), values.end(), [&](const auto& info) { return info.name == name; });
}
inline const TensorSpec& spec(const Graph& graph, std::string_view name) {
  return graph.values()[index_of(graph, name)].spec;
}
inline DType dtype(const Graph& graph, std::string_view name) { return spec(graph, name).dtype; }
// The node that makes the value.
inline uint32_t maker(const Graph& graph, std::string_view name) {
  return graph.values()[index_of(graph, name)].producer;
}
// What the node that makes `name` reads as its input `i`.
inline std::string reads(const Graph& graph, std::string_view name, size_t i) {
  return graph.values()[graph.nodes()[maker(graph, name)].inputs.at(i)].name;
}
inline size_t count(const Graph& graph, Op op) {
  const auto nodes = graph.nodes();
  return static_cast<size_t>(
      std::count_if(nodes.begin(), nodes.end(), [&](const auto& node) { return node.op == op; }));
}
// What output `name` is.
inline std::string output(const Graph& graph, std::string_view name) {
  for (const Graph::Output& one : graph.outputs()) {
    if (one.name == name) return graph.values()[one.value].name;
  }
  return "none";
}

// The line that tells of `where`: of a value, or of an option when `where` is "".
inline std::string told(const passes::Rewritten& work, std::string_view where, std::string_view words = "") {
  for (const passes::Note& note : work.notes) {
    const std::string line = passes::explain({&note, 1});
    if (note.where == where && line.find(words) != std::string::npos) return line;
  }
  return "nothing";
}

// Whether the node that makes `name` may write output `output` over the value called `over`.
inline bool writes_over(const passes::Rewritten& work, std::string_view name, std::string_view over) {
  const uint32_t value = index_of(work.graph, name);
  return std::any_of(work.aliases.begin(), work.aliases.end(), [&](const passes::Alias& alias) {
    const Graph::Node& node = work.graph.nodes()[alias.node];
    return node.outputs[alias.output] == value && work.graph.values()[node.inputs[alias.input]].name == over;
  });
}

}  // namespace tenon::test
