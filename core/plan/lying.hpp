// SPDX-License-Identifier: Apache-2.0
// lying.hpp: where the passes said that values lie: in which order of memory, and over which value that nobody reads any more.
//
// Invariant: what is said of values inside a fragment is nobody's affair; what is said of its bindings is in the fragment.
#pragma once

#include <tenon/passes.hpp>

#include <unordered_map>

namespace tenon::plan_room {

class Lying {
 public:
  Lying() = default;
  // TN_INVALID for a place or an alias that the graph does not have; TN_UNSUPPORTED for a private layout.
  // [any-thread; does not block; may fail]
  static Result<Lying> of(const passes::Rewritten& work);

  // The strides of a value; empty: dense.
  const std::vector<int64_t>& strides(uint32_t value) const;
  // The input of the piece over which its output may be written, through the values between them; TN_ABSENT: none.
  uint32_t over(const Graph& graph, const Graph::Piece& piece, uint32_t output) const;
  bool empty() const noexcept { return strides_.empty() && over_.empty(); }

  // The piece's nodes with its bindings where they lie, and `aliases` declared. [any-thread; does not block; may fail]
  Result<Fragment> fragment(const Graph& graph, std::span<const uint32_t> nodes, const Graph::Piece& piece,
                            std::span<const tn_alias> aliases) const;

 private:
  std::unordered_map<uint32_t, std::vector<int64_t>> strides_{};  // by value
  std::unordered_map<uint32_t, uint32_t> over_{};  // the value that a value may be written over
};

}  // namespace tenon::plan_room
