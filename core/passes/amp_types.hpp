// SPDX-License-Identifier: Apache-2.0
// amp_types.hpp: the type in which each node of a graph computes under mixed precision, and why. Nothing is written here.
//
// Invariant: only nodes of f32 are judged; what a graph says in other types stays as it is said.
#pragma once

#include "passes/amp_lists.hpp"

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace tenon::passes {

// What is known of a value's type.
enum class Precision : uint8_t {
  other,   // it was never f32
  either,  // a leaf, a constant, or made of such: as good in the half type
  half,
  full
};

struct Judgement {
  DType dtype{};                       // half or f32; DType{}: not judged, every input keeps its type
  std::string reason{};                // "white list"
  Precision result = Precision::full;  // of what it makes
};

class AmpTypes {
 public:
  AmpTypes(const Graph& graph, const AmpOptions& options);

  // Of each node.
  const std::vector<Judgement>& nodes() const noexcept { return nodes_; }
  // Entries of the custom lists, with how many nodes each spoke for.
  struct Entry {
    std::string name;
    AmpList list;
    size_t nodes = 0;
  };
  const std::vector<Entry>& entries() const noexcept { return entries_; }

 private:
  bool is_f32(uint32_t value) const;
  Judgement judge(const Graph::Node& node);
  Judgement follow(const Graph::Node& node) const;
  Precision of_own(const Graph::Node& node) const;
  Entry* entry_for(const Graph::Node& node);
  Precision of_leaf(const Graph::ValueInfo& info) const;

  const Graph& graph_;
  const AmpOptions& options_;
  std::vector<Entry> entries_{};
  std::unordered_map<std::string, size_t> by_name_{};
  std::vector<Precision> values_;
  std::vector<Judgement> nodes_{};
};

// Whether a number keeps its meaning in `half`: what is finite stays finite, what is not zero does not become zero.
// [any-thread; does not block; cannot fail]
bool fits(double number, DType half) noexcept;

}  // namespace tenon::passes
