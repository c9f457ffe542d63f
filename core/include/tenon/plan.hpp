// SPDX-License-Identifier: Apache-2.0
// plan.hpp: a graph made ready for a device: cut into fragments, compiled, its memory laid out; run as often as wanted.
//
// Invariant: a plan never changes after it is made, so it can be run on several streams at once, each run with memory of
// its own. What a run computes does not depend on how the graph was cut, beyond the rounding that an op's row allows.
#pragma once

#include <tenon/device.hpp>
#include <tenon/export.hpp>
#include <tenon/fusion.hpp>
#include <tenon/graph.hpp>
#include <tenon/passes.hpp>
#include <tenon/stream.hpp>
#include <tenon/timeline.hpp>

#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

struct PlanOptions {
  FusionOptions fusion{};
  CompileOptions compile{};
  // Inputs that are there only when sums over ranks are: launches that read them come with those that need a sum.
  std::vector<std::string> with_sums{};
};

// What a run reads or writes, by the name of an input, parameter or output of the graph.
struct Binding {
  std::string_view name;
  tn_span span;
  DType dtype{};  // of the numbers there, where whoever binds knows it: then another one is refused
};

// A plan; copies name the same one.
//
//   auto plan = TN_TRY(tenon::plan(g, device));
//   std::fputs(plan.explain().c_str(), stdout);
//   TN_TRY(plan.run(stream, {{"x", x}, {"w", w}, {"y", y}}));
class TN_API Plan {
 public:
  Plan() noexcept = default;
  explicit operator bool() const noexcept { return state_ != nullptr; }

  // Enqueues one run of a graph without all_reduce, which an Executor runs. Every input, parameter and output of the graph is bound, once, to as many bytes as it has; outputs
  // overlap nothing, but one of `renewals` may be bound to the very memory of its parameter. TN_INVALID naming what is
  // missing, unknown (with the nearest name) or of the wrong size; TN_NO_MEMORY.
  // On `timeline` each launch is an event, called by its op or the rule of its fusion and by what it makes: "conv2d stem.conv",
  // "elementwise stem.relu"; one that only moves elements is a copy. [stream's thread; may block; may fail]
  Status run(Stream& stream, std::span<const Binding> bindings, Timeline timeline = {}) const;
  Status run(Stream& stream, std::initializer_list<Binding> bindings, Timeline timeline = {}) const;

  // What was fused, what was not and why, who runs each launch, and what memory a run takes.
  // [any-thread; does not block; cannot fail]
  std::string explain() const;
  const FusionCut& cut() const noexcept;
  const Graph& graph() const noexcept;
  // Bytes of values between fragments and of workspaces, at the same time; and what they would take without reuse.
  uint64_t memory_bytes() const noexcept;
  uint64_t memory_bytes_without_reuse() const noexcept;

  // An output that may be written over the parameter that it is the new value of.
  struct Renewal {
    std::string output, param;
  };
  std::span<const Renewal> renewals() const noexcept;

  // What core's other rooms run it by. [any-thread; does not block; cannot fail]
  struct State;
  const State& state() const noexcept { return *state_; }

 private:
  explicit Plan(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  friend TN_API Result<Plan> plan(const Graph& graph, Device& device, const PlanOptions& options);
  friend TN_API Result<Plan> plan(const passes::Rewritten& work, Device& device, const PlanOptions& options);
  std::shared_ptr<const State> state_;
};

// Cuts and compiles `graph` for `device`; its all_reduce nodes are left to who runs the plan: those of communicator 0 are gradients,
// whose sums launches at the end need, any other's sum is taken right behind the launch that makes its input. A fragment of several
// nodes that the device refuses to compile is cut another way, and explain() says so. TN_INVALID as `fuse`; TN_UNSUPPORTED naming the node that the device does not run, and its
// reason. [any-thread; may block; may fail]
TN_API Result<Plan> plan(const Graph& graph, Device& device, const PlanOptions& options = {});

// The same of what passes gave: values lie as `placements` say, and what `aliases` name shares memory where the device writes
// in place and nobody reads the old value later; explain() tells how many do, and of each that does not why. TN_UNSUPPORTED
// for a placement in a private layout. [any-thread; may block; may fail]
TN_API Result<Plan> plan(const passes::Rewritten& work, Device& device, const PlanOptions& options = {});

// The device as `fuse` sees it: its patterns, its answers, its launch time and bandwidth. Figures that the device does not
// publish are measured once in the life of the process. [any-thread; may block; may fail]
TN_API Result<FusionTarget> fusion_target(Device& device);

// Which of a plan's fusions changes a result.
struct FusionSuspect {
  std::vector<FusionGroup> groups{};  // the fewest fusions that, taken alone, still make the difference
  std::string output{};               // the output of the graph that differs most
  double difference = 0;              // the largest |fused - alone| / (|alone| + 1) of it
  uint64_t runs = 0;
};

// Runs `graph` with and without fusions on the same random inputs; when outputs differ by more than `bound`, takes fusions
// away until only those are left that make the difference. No groups: nothing differs. Inputs are drawn from `seed`; integers
// are small and not negative. [any-thread; blocks; may fail]
TN_API Result<FusionSuspect> bisect(const Graph& graph, Device& device, const PlanOptions& options = {},
                                    double bound = 1e-2, uint64_t seed = 1);

// The same of what passes gave, as it is planned: with its placements and aliases. [any-thread; blocks; may fail]
TN_API Result<FusionSuspect> bisect(const passes::Rewritten& work, Device& device,
                                    const PlanOptions& options = {}, double bound = 1e-2, uint64_t seed = 1);

}  // namespace tenon
