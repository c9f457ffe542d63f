// SPDX-License-Identifier: Apache-2.0
// promises.hpp: what holds of every text whatever its bytes: it is refused with its place, or read as something that is
// written and read again as itself.
//
// Shared by libFuzzer and by the unit tests, which ask it of the seeds and of damaged ones.
// Invariant: a promise that is kept is "", one that is broken is told in words.
#pragma once

#include <tenon/graph.hpp>
#include <tenon/strategy.hpp>

#include "support/checkpoint_bytes.hpp"

#include <algorithm>
#include <string>
#include <string_view>

namespace tenon::test {

// Of a graph's text form.
inline std::string broken_graph_promise(std::string_view text) {
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
  return graph.dot().empty() || graph.svg().empty() ? "no picture" : "";
}

// Of a strategy file.
inline std::string broken_strategy_promise(std::string_view text) {
  const auto read = Strategy::parse(text, "s.toml");
  if (!read.ok()) return read.message().find("s.toml") == 0 ? "" : "a refusal that does not name its file";
  const std::string written = (*read).text();
  const auto again = Strategy::parse(written);
  if (!again.ok()) return "what was written is refused: " + std::string(again.message());
  if ((*again).text() != written) return "what was written reads as another text";
#define TN_OPTION(section, type, member, ...) \
  if ((*read).member != (*again).member) return #member " has changed";
#include <tenon/strategy.def>
#undef TN_OPTION
  return (*read).explain().empty() ? "nothing is explained" : "";
}

// Of a checkpoint's file. What is read is written with checksums, and read as such.
inline std::string broken_checkpoint_promise(std::string_view bytes) {
  const auto read = read_bytes(bytes, {.foreign_ok = true});
  if (!read.ok())
    return read.code() == TN_INVALID && read.message().starts_with("x.safetensors: ")
               ? ""
               : "a refusal without its file";
  const auto written = written_bytes(read->tensors(), read->notes());
  if (!written.ok()) return "what was read is not written: " + std::string(written.message());
  const auto again = read_bytes(*written);
  if (!again.ok()) return "what was written is refused: " + std::string(again.message());
  const auto equal = [](const CheckpointTensor& a, const CheckpointTensor& b) {
    return a.name == b.name && a.spec.dtype == b.spec.dtype && a.spec.dims == b.spec.dims &&
           std::ranges::equal(a.bytes, b.bytes);
  };
  if (!std::ranges::equal(read->tensors(), again->tensors(), equal)) return "a tensor has changed";
  if (read->notes() != again->notes()) return "a note has changed";
  return *written_bytes(again->tensors(), again->notes()) == *written
             ? ""
             : "what was written reads as other bytes";
}

}  // namespace tenon::test
