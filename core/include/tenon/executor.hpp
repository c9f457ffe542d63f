// SPDX-License-Identifier: Apache-2.0
// executor.hpp: a whole training step, compiled once and run as often as wanted: inputs come on a copy stream, gradients leave
// while backward still runs, updates happen in place.
//
//   auto step = TN_TRY(tenon::training_graph(model, "loss", options));
//   auto executor = TN_TRY(tenon::Executor::open(step, device, strategy, comm));
//   TN_TRY(executor.initialize(seed));
//   TN_TRY(executor.share());                                       // rank 0's on all ranks
//   for (…) {
//     float loss = 0;
//     if (TN_TRY(executor.run({fed("x", x), fed("y", y)}, {fetched("loss", loss)}))) std::printf("%f\n", loss);
//   }
//
// Invariant: what a step computes does not depend on fusion, overlap, or how often outputs are fetched, beyond the rounding
// that each op's row allows. All ranks run the same steps. A step without fetches does not make the device wait for the host.
#pragma once

#include <tenon/checkpoint.hpp>
#include <tenon/comm.hpp>
#include <tenon/device.hpp>
#include <tenon/export.hpp>
#include <tenon/plan.hpp>
#include <tenon/strategy.hpp>
#include <tenon/timeline.hpp>
#include <tenon/training.hpp>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace tenon {

namespace detail {
// What a C++ number is on a device; DType{} for one that says nothing, as a byte or the 16 bits of a half.
template <class T>
constexpr DType dtype_of() noexcept {
  constexpr bool whole = std::is_integral_v<T>, has_sign = std::is_signed_v<T>;
  if (std::is_same_v<T, float>) return f32;
  if (std::is_same_v<T, double>) return f64;
  if (whole && sizeof(T) == 4) return has_sign ? i32 : u32;
  if (whole && sizeof(T) == 8) return has_sign ? i64 : u64;
  return DType{};
}
}  // namespace detail

// Host memory for a step to read: a container, or one number; its type is held against the step's.
template <class Host>
Binding fed(std::string_view name, const Host& source) {
  if constexpr (std::is_arithmetic_v<Host>) {
    return {name, Stream::host_span(&source, sizeof source), detail::dtype_of<Host>()};
  } else {
    const std::span view(source);
    using Number = std::remove_cv_t<typename decltype(view)::element_type>;
    return {name, Stream::host_span(view.data(), view.size_bytes()), detail::dtype_of<Number>()};
  }
}
// The same for an output to be written to.
template <class Host>
Binding fetched(std::string_view name, Host& destination) {
  if constexpr (std::is_arithmetic_v<Host>) {
    static_assert(!std::is_const_v<Host>, "an output is written to its destination");
  } else {
    static_assert(!std::is_const_v<typename decltype(std::span(destination))::element_type>,
                  "an output is written to its destination");
  }
  return fed(name, destination);
}

// `strategy.passes()` with what that leaves to the device decided: where channels lie, which attentions it has, and whether values are
// made again. Names to stop are those of `graph`'s parameters. For `passes::run`; what an executor runs on a step, but for the nodes
// that the step keeps in f32 under mixed precision. Failures of `fusion_target`; TN_INVALID for
// a `layout` that the device does not have, with the nearest one.
// [any-thread; may block; may fail]
TN_API Result<passes::Options> passes_for(const Graph& graph, const Strategy& strategy, Device& device);

struct ExecutorOptions {
  CompileOptions compile{};
  Timeline timeline{};  // measures each launch, each bucket and each input's copy
  CommTarget target{};  // known costs of collectives, as SyncOptions::target
};

// What an executor is made of, and what it has done.
struct ExecutorFigures {
  uint64_t steps = 0;
  uint64_t nodes = 0, launches = 0;      // of a step; all_reduces are neither
  uint64_t stretches = 0, replayed = 0;  // of launches with nothing between them; steps that replayed theirs
  uint64_t gradients = 0, all_reduces = 0;  // of a step, before and after they are put together
  uint64_t sent_bytes = 0;                  // of a rank and step, before a collective's own factor
  // Of gradients in a step that something else reads where they are made, and that are copied to where they are sent from.
  uint64_t copied_bytes = 0;
  uint64_t in_place = 0, in_turns = 0;  // renewed parameters: written over, and with two places
  // Memory, which is all taken when it opens: what lasts, what lies between launches, gradients, inputs and outputs.
  uint64_t lasting_bytes = 0, between_bytes = 0, gradient_bytes = 0, edge_bytes = 0;
  uint64_t peak_bytes() const noexcept { return lasting_bytes + between_bytes + gradient_bytes + edge_bytes; }
};

// Move-only; one thread at a time. A failed step is the end: parameters may be half updated, so they need a checkpoint and a
// new executor; that call, and every later one, says so.
class TN_API Executor {
 public:
  // Passes, fusion and overlap as `strategy` says, on streams of its own. With a communicator all ranks together, of a step for
  // as many; empty for a step of one rank. With `sharded` each rank updates its pieces of all parameters and has states of as many; then
  // get, value and save of those are calls of all ranks together. TN_INVALID for other ranks than the step's; TN_UNSUPPORTED for a node the
  // device does not run, or in sharded mode one between sums and updates that does not go element by element; failures of passes, plan
  // and GradientSync. [any-thread; blocks; may fail]
  static Result<Executor> open(const TrainingGraph& step, Device& device, const Strategy& strategy = {},
                               const Communicator& comm = {}, const ExecutorOptions& options = {});
  Executor(Executor&&) noexcept;
  Executor& operator=(Executor&&) noexcept;
  ~Executor();

  // A shorter batch as well: the last of an epoch. `shorter` is the same step of fewer samples, made with
  // TrainingOptions::samples = its own and full_batch = those of the step that was opened. From now on `run` takes inputs of either
  // size, each rank its own, and averages are those of all samples. Compiles it, and for several ranks what a rank runs that has none
  // at all. TN_INVALID naming what differs beside the batch; failures of passes and plan.
  // [one thread; blocks; may fail]
  Status also(const TrainingGraph& shorter);

  // A parameter by the step's names, in the type that the step has it in, whatever mixed precision made of it. In sharded mode `set` keeps
  // this rank's pieces of a state, and `get` brings those of all ranks together, which call it together. TN_INVALID for other bytes
  // than it has; TN_NOT_FOUND with the nearest name. [one thread; blocks; may fail]
  Status set(std::string_view name, std::span<const std::byte> bytes);
  Result<std::vector<std::byte>> get(std::string_view name);
  // What `set` and `get` know, in the order of the step's values. [any-thread; does not block; cannot fail]
  struct Lasting {
    std::string name;
    TensorSpec spec;
  };
  std::span<const Lasting> lasting() const noexcept;
  // All parameters that have not begun, by initial_values. [one thread; blocks; may fail]
  Status initialize(uint64_t seed);
  // Rank `root`'s parameters and states on all ranks. All ranks together. In sharded mode a state that root was not given since the last
  // step stays each rank's own. [one thread; blocks; may fail]
  Status share(uint32_t root = 0);
  // All that lasts, and how many steps there were, as a checkpoint with these notes: to a file, or to a folder under the number of
  // steps. Waits for all steps. In sharded mode all ranks call it, and rank 0 writes: the same file as in the plain mode. TN_INVALID for parameters that have not begun, or a note called "steps"; failures as Checkpoint::write.
  // [one thread; blocks; may fail]
  Status save(const std::string& path, CheckpointNotes notes = {});
  Status save(CheckpointFolder& folder, CheckpointNotes notes = {});
  // Goes on where `from` was saved: with the same step and strategy the same bits follow. What else it holds is left alone.
  // TN_NOT_FOUND naming a parameter that it has not, TN_MISMATCH one that it has otherwise; nothing has changed then.
  // [one thread; blocks; may fail]
  Status restore(const Checkpoint& from);
  // The rate of later steps. TN_INVALID for one that is no finite number of 0 or more. [one thread; may block; may fail]
  Status set_rate(double rate);
  // One number: a parameter or an output with one element. [one thread; blocks; may fail]
  Result<double> value(std::string_view name);

  // Enqueues one step. Every input of the model is given, once: host memory, which may be used again on return, or memory of
  // the device that is ready for stream(). Fetches are outputs, into host memory. True: this step was one of every fetch_every,
  // the device has finished it and they are written; false: they are as they were. TN_INVALID naming what is missing, unknown or of the wrong size, or
  // parameters that have not begun; then nothing was enqueued. May block where the device is two steps behind.
  // Inputs of no bytes, where others have some: this rank has no samples. It gives zeros to the sums, renews what follows from them as
  // all ranks do, and leaves fetches as they are. Compiles that first, unless `also` did. TN_INVALID where the step has one rank, or
  // known sums (uneven_batches = false); TN_UNSUPPORTED with sync_batch_norm.
  // [one thread; may block; may fail]
  Result<bool> run(std::span<const Binding> inputs, std::span<const Binding> fetches = {});
  Result<bool> run(std::initializer_list<Binding> inputs, std::initializer_list<Binding> fetches = {});
  // num_iteration_per_run steps of one call: `feed` gives the inputs of each, or false when there are none left. Fetches are of
  // the last step, which waits. How many steps ran. [one thread; may block; may fail, also as `feed`]
  using Feed = std::function<Result<bool>(std::vector<Binding>& inputs)>;
  Result<uint32_t> run(const Feed& feed, std::span<const Binding> fetches = {});
  // Waits for all steps. [one thread; blocks; may fail]
  Status sync();

  // Where launches go: what is enqueued on it before a step is seen by it. [any-thread; does not block; cannot fail]
  Stream& stream() noexcept;
  uint64_t steps() const noexcept;
  ExecutorFigures figures() const;
  const Plan& plan() const noexcept;  // of a full step; in sharded mode of what comes before the sums
  const TrainingGraph& step() const noexcept;
  // What was put together, in a line each: subgraphs, updates, all-reduces. [any-thread; does not block; cannot fail]
  std::string summary() const;
  // The summary, what passes did, what was fused, how gradients leave, where memory goes. [any-thread; does not block; cannot fail]
  std::string explain() const;

  struct State;

 private:
  explicit Executor(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

}  // namespace tenon
