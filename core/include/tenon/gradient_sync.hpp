// SPDX-License-Identifier: Apache-2.0
// gradient_sync.hpp: the gradients of an eager framework, averaged over all ranks while backward still computes them.
//
//   auto sync = TN_TRY(tenon::GradientSync::create(device, comm, parameters, strategy.overlap));
//   for (each step) {
//     if (TN_TRY(sync.begin(stream))) …;       // true: places have changed, ask sync.gradient(i) anew
//     for (each parameter i, as backward finds it) {
//       …;                                     // enqueue on `stream` what writes sync.gradient(i)
//       TN_TRY(sync.ready(i));                 // its bucket leaves with the last of its members
//     }
//     TN_TRY(sync.finish(stream, {.samples = 32}));
//     …;                                       // what is enqueued on `stream` now finds the averages
//   }
//
// Invariant: every rank launches the buckets of one plan in one order, whatever order its own gradients come in. Ranks that
// would not are told before the first launch.
#pragma once

#include <tenon/comm.hpp>
#include <tenon/device.hpp>
#include <tenon/export.hpp>
#include <tenon/overlap.hpp>

#include <memory>
#include <span>

namespace tenon {

// What the sums over all ranks are divided by, once, after they are complete.
enum class Average : uint8_t {
  samples,  // all samples of the step: each rank brings sums over its own, or means with samples = 1
  ranks,    // the number of ranks
  none      // not divided: an update that divides by itself finds the number of samples in divisor()
};

// Whether the gradients of a backward leave.
enum class Backward : uint8_t {
  sync,
  no_sync  // they stay and add up, until one that is of `sync`
};

// Equal on all ranks. Those of a strategy's [overlap] are OverlapOptions.
struct SyncOptions {
  Average average = Average::samples;
  uint32_t warm_up_steps = 3;  // measured, then planned anew with what was found; 0: the first plan stays
  uint32_t measure_every = 0;  // steps until one is measured again, and judged by replan_drift; 0: never
  // Each makes updates wait for the last bucket; see StepProfile.
  bool loss_scaling = false, clip_global_norm = false, uneven_batches = true;
  // Known costs of all_reduce, which are measured during creation otherwise; ranks, alignment and name are filled in.
  CommTarget target{};
};

// What a rank brings to a step beside its gradients.
struct Contribution {
  uint64_t samples = 1;  // of this backward; those of no_sync add up. 0: a rank that had none
  tn_span found_inf{};   // one f32 on the device, 1 where a number is not finite, else 0; empty: none was
};

// Gradients of one rank, and what sends them. Move-only; what is in flight is seen out when it ends.
// Unless it says otherwise a call belongs to one thread at a time, enqueues and does not block. A failed collective is the
// end: that call, or the stream's next sync, tells why, naming the rank, and so does every later call here.
class TN_API GradientSync {
 public:
  // All ranks together, with the same parameters (names, types, sizes, in one order) and options; a Gradient's times are a
  // guess that measuring replaces. Splits `comm`, one communicator for each stream. TN_MISMATCH on all ranks, with what the
  // ranks have instead, when they differ; TN_UNSUPPORTED for sharded mode, a sparse gradient, or a device that cannot divide;
  // TN_INVALID as plan_communication; failures of the communicator. [one thread; blocks; may fail]
  static Result<GradientSync> create(Device& device, Communicator& comm, std::span<const Gradient> parameters,
                                     const OverlapOptions& overlap = {}, SyncOptions options = {});
  GradientSync(GradientSync&&) noexcept;
  GradientSync& operator=(GradientSync&&) noexcept;
  ~GradientSync();

  // The plan that holds. [any-thread; does not block; cannot fail]
  const CommPlan& plan() const noexcept;
  // Where parameter `i` has its gradient, dense, until `begin` says true; empty for a position that is none.
  // [any-thread; does not block; cannot fail]
  tn_span gradient(uint32_t i) const noexcept;
  // Fills all gradients with zeros, in one go: for those who add to them. [stream's thread; does not block; may fail]
  Status clear(Stream& stream);

  // A backward begins, whose kernels are enqueued on `compute`; what was averaged before is done with. After measured steps
  // all ranks plan anew here: true when gradients have new places, whose bytes are zero. Blocks then, and after each
  // measured step. TN_INVALID before the last one is finished; TN_MISMATCH as `create`. [stream's thread; may block; may fail]
  Result<bool> begin(Stream& compute, Backward how = Backward::sync);
  // What writes gradient `i` was enqueued on `compute`. TN_INVALID naming the parameter when it was ready before in this
  // backward. [stream's thread; does not block, unless sync_nccl_allreduce; may fail]
  Status ready(uint32_t i);
  // The same for one that is complete at `when`, a point of another stream.
  Status ready(uint32_t i, const Point& when);
  // The same for one that lies elsewhere, as long as its slot: copied into its slot when its bucket leaves, and back by
  // `finish`; it must live until what `finish` enqueued is done.
  Status bring(uint32_t i, const tn_span& gradient);
  // All gradients of this backward were told of. Parameters without one contribute zeros. Later work on `stream` finds the
  // averages of all ranks. TN_INVALID for too many samples. [stream's thread; does not block, unless sync_nccl_allreduce or
  // the last but one finish is not done; may fail]
  Status finish(Stream& stream, const Contribution& mine = {});

  // What the ranks brought to the last finished step: samples, ranks that found a number that is not finite, how many ranks
  // used each parameter (none: its average is zero). Until the next `begin`. [stream's thread; blocks; may fail]
  Result<CommTail::Reading> totals(Stream& stream);
  // One f32 by which sums are divided: after `finish`, in its stream's order. [any-thread; does not block; cannot fail]
  tn_span divisor() const noexcept;
  // Bytes copied so far to bring gradients together and back: none, unless they were brought from elsewhere.
  // [any-thread; does not block; cannot fail]
  uint64_t copied_bytes() const noexcept;

  struct State;

 private:
  explicit GradientSync(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

}  // namespace tenon
