// SPDX-License-Identifier: Apache-2.0
// text_property.hpp: what holds for every text whatever its bytes. Shared by the test with a seed and by libFuzzer.
#pragma once

#include <tenon/graph.hpp>

#include <string>
#include <string_view>

namespace tenon::test {

// "" or what is wrong: a text is refused with a place, or read as a graph that is written and read again as itself.
inline std::string broken_promise(std::string_view text) {
  const auto read = Graph::parse(text);
  if (!read.ok()) return read.message().find("line ") == 0 ? "" : "a refusal without a place";
  const Graph& graph = *read;
  if (!graph.check().ok()) return "a graph with a mistake was given out";
  const std::string written = graph.text();
  const auto again = Graph::parse(written);
  if (!again.ok()) return "what was written is refused: " + std::string(again.message());
  if ((*again).text() != written) return "what was written reads as another text";
  const auto first = graph.fragment(), second = (*again).fragment();
  if (first.ok() != second.ok()) return "one of two equal graphs is a fragment";
  if (first.ok() && first->fragment.identity() != second->fragment.identity()) return "two identities";
  return graph.dot().empty() ? "no picture" : "";
}

}  // namespace tenon::test
