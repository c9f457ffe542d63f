// SPDX-License-Identifier: Apache-2.0
// passes.hpp: graph → graph: what is computed stays, how it is computed changes, and each change is told with its reason.
//
// Invariant: a pass that succeeds gives a valid graph with the outputs of the one it was given (but for updates that it was
// told to stop) and equal numbers in them: exactly (a zero may change its sign under pad), for amp as if every value had
// been rounded to the type it has now, and for attention but for the order of its sums, in rows that see a key and hide no NaN or ∞
// (AttentionOptions). What was asked for and could not be done is a Note.
#pragma once

#include <tenon/graph.hpp>
#include <tenon/kernel.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::passes {

// One thing a pass did, or was asked for and did not do.
struct Note {
  std::string pass;    // "amp"
  std::string where;   // the value a node makes, a leaf, an output, or "" for the graph: "fc1"
  std::string what;    // "matmul in bf16"
  std::string reason;  // "white list"
  bool applied = true;
};

// Output `output` of a node may live in the memory of its input `input` (positions in the node's lists): whoever else reads
// that input has read it by then, in every order in which the graph can run, or with `by_order` in some. Who runs the graph
// knows its order and leaves out what does not hold in it, as plan() does.
struct Alias {
  uint32_t node = TN_ABSENT, output = 0, input = 0;
  bool by_order = false;
  friend bool operator==(const Alias&, const Alias&) = default;
};

// How a computed value lies in memory. Values that are not listed are dense.
struct Placement {
  uint32_t value = TN_ABSENT;
  std::vector<int64_t> strides{};  // in elements; empty: the private layout called `layout`
  std::string layout{};
};

// A parameter that is of a half type now, and the f32 parameter that is updated in its place, by name. `master` is bound to
// the numbers that `param` would have had, `param` to the same numbers rounded; output `output` is the updated master.
struct Master {
  std::string param, master, output;
};

// A graph on its way through passes: `graph` is what there is to run, the lists say what a graph cannot. A pass takes a
// graph, or what another pass gave.
struct Rewritten {
  Rewritten(Graph from) : graph(std::move(from)) {
    for (uint32_t i = 0; i < graph.values().size(); ++i) values.push_back(graph.value(i));
  }

  Graph graph;
  // Where each value of the first graph is found in this one, maybe in another type; GraphValue{} when it is gone.
  std::vector<GraphValue> values{};
  std::vector<Note> notes{};
  std::vector<Alias> aliases{};
  std::vector<Placement> placements{};
  std::vector<Master> masters{};
};

// Nodes that no output needs go, and with `stop_gradient` the updates of the parameters named: their optimizer nodes, the
// outputs these alone make, and the gradients that nobody else reads. What other ranks wait for stays.
struct PruneOptions {
  std::vector<std::string> stop_gradient{};  // parameters that are not trained
};

// Mixed precision: f32 nodes compute in `half` where amp_lists.def says that it is safe.
//   O1  white → half, black → f32, grey follows its inputs and f32 wins; leaves stay f32 and are cast once.
//   O2  parameters are of the half type, and everything from the inputs on but softmax, losses and what follows them.
//       Normalisations read and write halves with f32 parameters and statistics. Optimizers get f32 masters.
// Inputs and outputs of the graph keep their types, but for the updates of parameters that became halves.
enum class AmpLevel : uint8_t { O1 = 1, O2 = 2 };
struct AmpOptions {
  AmpLevel level = AmpLevel::O1;
  DType half = bf16;  // or f16, whose loss wants scaling
  // Ops ("exp"), or nodes by the value they make ("fc1"), which count more than their ops.
  std::vector<std::string> white{}, black{};
  // Nodes by the value they make, and the parameter in whose type each computes: a half where O2 keeps that in halves, which is
  // known once a node before has read it; else f32. They count more than all lists. For sums of gradients in sharded mode.
  std::map<std::string, std::string> as_parameter{};
};

// softmax(q · kᵀ · scale + mask) · v, where it is written as two products with a softmax between, becomes one attention, and the way
// back through it one attention_grad: scores, shares and their gradients are never in memory. Of rank 4 and 3; the scale before the
// mask; where() with -1e9 or less is a mask, too. Dropout of the shares, whoever else reads them, and a mask that the type of q does
// not hold, keep them. Numbers are equal but for the order of sums, except in two kinds of rows:
//   - One that sees nothing, all of it hidden by where() or by adding what is -∞ in the type of q, is 0 and gives gradients of 0.
//     As products it is NaN, or the mean of v.
//   - One in which where() hides a score that is NaN or ∞ may be NaN. where() replaces the score, attention adds -∞ to it.
// Scores that are seen are taken to lie far above what hides.
struct AttentionOptions {
  // Asked for each attention and attention_grad, and for the products and softmaxes that they replace, once for equal ones. What it refuses,
  // or predicts to take as long as those, stays as it was. Without it everything is taken. [the thread of the pass; may fail]
  std::function<Result<Support>(const Fragment&)> supports{};
  // Whether a node stays, by the value it makes. Without it none has to. [the thread of the pass; does not block; cannot fail]
  std::function<bool(std::string_view)> kept{};
};

// Matmul and convolution sizes that tensor cores read eight at a time are padded with zeros, and results are cut to size.
struct PadOptions {
  int64_t multiple = 8;
  int64_t first_channels = 4;  // fewer channels than that become that many
  double max_growth = 2;       // a size that would grow by more stays
  bool all_types = false;      // not only f16 and bf16
};

// Where a relu stands right behind a batch_norm_train, the way back makes what relu was given again of x, which it reads
// anyway, and does not read what relu gave. It is for a device that makes one fragment of it: one that publishes the pattern
// "bn_act_backward". On others it is a node more. What went through sync_batch_norm, or has an addition before the relu, stays.
struct RecomputeOptions {};

// Convolutions and what lies between them in the order the device prefers; conversions only where a chain of them begins
// or ends. "nhwc" is strides, any other name a private layout of the plugin; "nchw" is what graphs are in.
struct LayoutOptions {
  std::string prefer = "nhwc";
  bool filters = true;  // in strides: filters lie as images do, and not as they came
};

// Sums of gradients accumulate in one buffer, so that a matmul or convolution may add to it (beta = 1).
struct AddtoOptions {
  int64_t max_inplace_grad_add = 8;  // a sum of more terms is left to one kernel that reads them all
};

// Elementwise results, updates and reductions over ranks written over an input that nobody reads any more.
struct InPlaceOptions {
  bool params = true;  // updated parameters and states over the old ones
};

// Each pass takes what the one before gave; maps of values are composed and notes added up. The passes that change nodes
// come before those that only list aliases and placements: prune, amp, attention, pad, recompute, layout, then addto, in_place.
// TN_INVALID for a graph with a mistake, for an option out of range, or in another order.
// [any-thread; does not block; may fail]
TN_API Result<Rewritten> prune(Rewritten work, const PruneOptions& options = {});
TN_API Result<Rewritten> amp(Rewritten work, const AmpOptions& options = {});
TN_API Result<Rewritten> attention(Rewritten work, const AttentionOptions& options = {});
TN_API Result<Rewritten> pad(Rewritten work, const PadOptions& options = {});
TN_API Result<Rewritten> recompute(Rewritten work, const RecomputeOptions& options = {});
TN_API Result<Rewritten> layout(Rewritten work, const LayoutOptions& options = {});
TN_API Result<Rewritten> addto(Rewritten work, const AddtoOptions& options = {});
TN_API Result<Rewritten> in_place(Rewritten work, const InPlaceOptions& options = {});

// Which passes, each with its options.
struct Options {
  std::optional<PruneOptions> prune{};
  std::optional<AmpOptions> amp{};
  std::optional<AttentionOptions> attention{};
  std::optional<PadOptions> pad{};
  std::optional<RecomputeOptions> recompute{};
  std::optional<LayoutOptions> layout{};
  std::optional<AddtoOptions> addto{};
  std::optional<InPlaceOptions> in_place{};
};

// Those that are given, in the order above. [any-thread; does not block; may fail]
TN_API Result<Rewritten> run(Rewritten work, const Options& options);

// A line for each note, "+" for what was done and "-" for what was not. [any-thread; does not block; cannot fail]
TN_API std::string explain(std::span<const Note> notes);

}  // namespace tenon::passes
