// SPDX-License-Identifier: Apache-2.0
// fusion.hpp: how a graph is cut into fragments for a device, and why it is cut there.
//
// Invariant: every node that an output needs is in exactly one group, and groups stand in an order in which they can run.
// Every candidate ends as a group or as a refusal that names the predicate that failed, with its values: nothing is silently
// ignored. Equal graphs, targets and options give equal cuts.
#pragma once

#include <tenon/export.hpp>
#include <tenon/graph.hpp>
#include <tenon/kernel.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tenon {

// A fusion that a device publishes (kernel.h, tn_pattern), as the host keeps it.
struct FusionPattern {
  static constexpr uint32_t free_input = TN_PATTERN_INPUT;

  struct Step {
    std::vector<Op> ops{};  // any one of these
    std::vector<uint32_t>
        operands{};         // a step before it, or free_input + n; a step's value is its first output
    bool optional = false;  // may be missing; its first operand stands for it
    bool output = false;    // its value may be used outside the group
  };
  std::string name{};
  std::vector<Step> steps{};  // each but the first is connected to one before it
};

// What cutting has to know of a device. `Plan` makes one from a Device; a test writes it down.
struct FusionTarget {
  std::string device = "device";  // for words only
  bool whole_graph = false;       // TN_FEATURE_WHOLE_GRAPH: the graph is one fragment
  double launch_ns = 5000;        // of one launch
  double bytes_per_ns = 10;       // of memory, reading and writing
  uint32_t max_bindings = 0;      // inputs + outputs of one fragment; 0: no limit
  std::vector<FusionPattern> patterns{};
  // Asked at most once for equal fragments. [the thread of `fuse`; may fail]
  std::function<Result<Support>(const Fragment&)> supports{};
};

// Nodes are named by any value they make; each '*' stands for anything.
struct FusionOptions {
  bool elementwise =
      true;  // groups grown over elementwise nodes, broadcasts and reduction tails (enable_auto_fusion)
  bool patterns = true;    // fusions that the device publishes
  bool optimizers = true;  // all optimizer updates at once (fuse_all_optimizer_ops)
  // Updates that need different sums over ranks become several groups, in the order in which the sums are sent: as many as pay.
  bool updates_by_arrival = false;
  std::vector<std::string> off{};  // rules and patterns that are not used, by name
  // Each list names two nodes or more and is one group, or `fuse` fails and says why.
  std::vector<std::vector<std::string>> must_fuse{};
  std::vector<std::string> never_fuse{};  // nodes that stay alone
  uint32_t max_nodes = 256;               // of one elementwise group
  double min_gain_ns = 0;                 // a fusion that is predicted to gain no more is refused
};

// Nodes that become one fragment.
struct FusionGroup {
  std::vector<uint32_t> nodes{};  // ascending
  // "alone", "elementwise", "optimizers", "must_fuse", "whole_graph", "exchange", or a pattern's name.
  std::string rule{};
  Support support{};            // of a group that no device runs, the reason
  uint32_t launches_saved = 0;  // against the nodes one by one
  double cost_ns = 0;           // predicted
  double gain_ns = 0;           // against the nodes one by one
  uint64_t bytes = 0;           // read and written by it
  uint64_t bytes_saved = 0;
};

// A candidate that was not taken, or a wish that the device cannot honour.
struct FusionRefusal {
  std::vector<uint32_t> nodes{};  // ascending; none: it is of the whole graph
  std::string rule{};
  std::string reason{};  // "N = 1000 is not a multiple of 128"
  double gain_ns = 0;    // predicted, had it been taken; 0: not computed
};

struct FusionCut {
  std::vector<FusionGroup> groups{};      // in an order in which they can run
  std::vector<FusionRefusal> refusals{};  // in the order of their nodes; no two of the same nodes and rule
  std::vector<uint32_t> dropped{};        // nodes that no output needs: they do not run
  uint64_t views = 0;      // groups of a reshape between launches, for which a plan launches nothing
  uint64_t exchanges = 0;  // groups of a sum over ranks, for which a plan launches nothing either
  uint64_t bytes_before = 0, bytes_after = 0;  // moved by all nodes one by one, and by all groups
  double cost_before_ns = 0, cost_after_ns = 0;
  uint64_t questions = 0;  // how often the device was asked
};

// Cuts `graph` for `target`. TN_INVALID for a graph with a mistake, a name in the options that no node and no rule has
// (with the nearest one), or a must_fuse that names fewer than two nodes or cannot be, with the path or the device's reason.
// A device of whole graphs has what must be together in its one group; never_fuse and off are refused there, in words.
// [any-thread; does not block; may fail]
TN_API Result<FusionCut> fuse(const Graph& graph, const FusionTarget& target,
                              const FusionOptions& options = {});

// One line for each fusion and each refusal, and the totals. [any-thread; does not block; cannot fail]
TN_API std::string explain(const Graph& graph, const FusionTarget& target, const FusionCut& cut);

}  // namespace tenon
