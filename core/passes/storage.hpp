// SPDX-License-Identifier: Apache-2.0
// storage.hpp: whether a node may write an output over one of its inputs.
//
// Invariant: an alias is legal in every order in which the graph can run, since who else reads the input comes before the
// node by need, or it says that it is not. What is bound from outside is overwritten only by its own update.
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

// Whether a pair became an alias, or why not. `late` reads the input too, and in some orders after the node.
struct Taken {
  std::string why_not{};
  uint32_t late = TN_ABSENT;
  explicit operator bool() const { return why_not.empty(); }
};

class Storage {
 public:
  // Keeps to the aliases that `work` has; adds to them. [one thread]
  Storage(Rewritten& work, bool params);

  // Whether the output has an alias already.
  bool is_taken(uint32_t node, uint32_t output) const;
  // Takes the alias if it may be, in every order or, where `by_order` is given, in some.
  Taken take(uint32_t node, const Pair& pair, bool by_order = false);

 private:
  std::string why_not(uint32_t node, const Pair& pair) const;
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
