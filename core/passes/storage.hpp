// SPDX-License-Identifier: Apache-2.0
// storage.hpp: whether a node may write an output over one of its inputs.
//
// Invariant: an alias that is taken is legal in every order in which the graph can run: who else reads the input comes
// before the node by need, not by chance. What is bound from outside is overwritten only by its own update.
#pragma once

#include <tenon/passes.hpp>

#include <string>
#include <unordered_map>
#include <vector>

namespace tenon::passes {

// Positions in a node's lists that may be the same memory as far as the op goes: each element is read before it is
// written, or the two are old and new of one state.
struct Pair {
  uint32_t output, input;
  bool updates = false;  // old and new of one state, which may be a parameter
};
std::vector<Pair> pairs_of(const Graph::Node& node);

class Storage {
 public:
  // Keeps to the aliases that `work` has; adds to them. [one thread]
  Storage(Rewritten& work, bool params);

  // Whether the output has an alias already.
  bool is_taken(uint32_t node, uint32_t output) const;
  // Takes the alias and gives "", or says why it may not be.
  std::string take(uint32_t node, const Pair& pair);

 private:
  std::string why_not(uint32_t node, const Pair& pair);
  std::string why_not_leaf(uint32_t node, const Pair& pair) const;
  bool same_place(uint32_t a, uint32_t b) const;
  // Who of `readers` does not run before `node` in every order, or TN_ABSENT; `node` itself does not count.
  uint32_t straggler(const std::vector<uint32_t>& readers, uint32_t node);

  Rewritten& work_;
  const Graph& g_;
  bool params_;
  std::vector<bool> is_output_;               // per value
  std::vector<const Placement*> placements_;  // per value; null: dense
  std::vector<uint32_t> visited_;             // per node: the search that was there last
  uint32_t search_ = 0;
  std::unordered_multimap<uint32_t, Alias> taken_{};  // by node
  std::vector<uint32_t> open_{};
};

}  // namespace tenon::passes
