// SPDX-License-Identifier: Apache-2.0
// gradient_sync.hpp: the gradients of an eager framework, averaged over all ranks while backward still computes them.
//
//   auto sync = TN_TRY(tenon::GradientSync::create(device, comm, parameters, strategy.overlap()));
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
// With overlap.sharded each rank updates a part of all parameters, which live in sync.parameter(i):
//
//     for (each parameter i, as forward reads it) {
//       TN_TRY(sync.await(stream, i));         // what is enqueued on `stream` now finds it whole
//       …;                                     // forward
//     }
//     …;                                       // backward and finish, as above
//     for (const tenon::Shard& shard : sync.shards()) …;  // enqueue on `stream` what updates shard.parameter
//     TN_TRY(sync.gather(stream));             // the others' parts come while the next forward runs
//
// Where forward or backward itself needs sums from all ranks, as a batch norm over the samples of all does, they go through the
// same order (SyncOptions::sums):
//
//     …;                                       // enqueue on `stream` what writes this rank's Σx, Σx² and their count
//     TN_TRY(sync.sum(stream, numbers, tenon::f32));
//     …;                                       // what is enqueued on `stream` now finds those of all ranks
//
// With Average::none and nothing that makes updates wait (plan().gate() is empty) they may start bucket by bucket, while the last
// buckets are on their way:
//
//     …;                                       // backward and ready, as above
//     TN_TRY(sync.send({.samples = 32}));      // the last bucket leaves
//     for (each bucket b of sync.plan().buckets()) {
//       TN_TRY(sync.await_bucket(stream, b));
//       …;                                     // enqueue on `stream` the updates of its members, which divide by themselves
//     }
//     TN_TRY(sync.finish(stream));
//
// Invariant: every rank launches the buckets of one plan in one order, whatever order its own gradients come in. Ranks that
// would not are told before the first launch.
#pragma once

#include <tenon/comm.hpp>
#include <tenon/comm_hook.hpp>
#include <tenon/device.hpp>
#include <tenon/export.hpp>
#include <tenon/overlap.hpp>
#include <tenon/timeline.hpp>

#include <memory>
#include <span>
#include <vector>

namespace tenon {

// What the sums over all ranks are divided by, once, after they are complete.
enum class Average : uint8_t {
  samples,  // all samples of the step: each rank brings sums over its own, or means with samples = 1
  ranks,    // the number of ranks: each bucket as soon as it is there
  none      // not divided: an update that divides by itself finds the number of samples in divisor()
};

// Whether the gradients of a backward leave.
enum class Backward : uint8_t {
  sync,
  no_sync  // they stay and add up, until one that is of `sync`
};

// Equal on all ranks. Strategy::sync gives those that a strategy has; its others are OverlapOptions.
struct SyncOptions {
  Average average = Average::samples;
  // Sharded mode keeps its first plan, whatever these say, because an optimizer's state stays where its shard is.
  uint32_t warm_up_steps = 3;  // measured, then planned anew with what was found; 0: the first plan stays
  uint32_t measure_every = 0;  // steps until one is measured again, and judged by replan_drift; 0: never
  // Each makes updates wait for the last bucket; see StepProfile.
  bool loss_scaling = false, clip_global_norm = false, uneven_batches = true;
  std::string updates_wait{};
  // Known costs: of all_reduce on each route, in sharded mode of reduce_scatter and all_gather; measured during creation
  // otherwise, and with them what they meet: computing, each other on several streams, the division of sums. Ranks, alignment and name
  // are filled in. Routes through groups (hierarchy.hpp) are made when one has a cost here, or
  // use_hierarchical_allreduce or hierarchical_allreduce_inter_nranks asks for them (0: groups by host).
  CommTarget target{};
  // Sums gradients in the place of all-reduce; refused in sharded mode, left aside where there is one rank.
  CommHook hook{};
  // Measures every bucket on its way, copies for it, each wait for it and for what it waits, rows, gathers and the averaging, beside
  // what the caller measures of `compute`; off by default.
  Timeline timeline{};
  // Forward or backward calls `sum`. Buckets then leave after the sum with which all ranks have told that they are ready, and the
  // rest in `finish`: so one order holds for both, whatever order gradients come in.
  bool sums = false;
  // What an update that divides by itself counts samples in (TrainingOptions::full_batch): compared between ranks, and nothing else.
  uint64_t full_batch = 1;
  // What else all ranks must have alike, in words, a line each (TrainingGraph::rules): compared likewise.
  std::string rules{};
};

// What a rank brings to a step beside its gradients.
struct Contribution {
  uint64_t samples = 1;  // of this backward; those of no_sync add up. 0: a rank that had none
  tn_span found_inf{};   // one f32 on the device, 1 where a number is not finite, else 0; empty: none was
  bool done = false;     // this rank has no more batches; counted for all in totals().ranks_done
};

// A sparse parameter's rows from all ranks, in the order of ranks: most_rows of each. Those that a rank did not bring have
// index 0 and zeros as values, so a sum over all of them is right.
struct SparseRows {
  tn_span indices{};  // i64
  tn_span values{};   // averages: their sums over equal indices are the row's
};

// What one rank updates of a bucket in sharded mode: elements of one type in one row. Between parts and behind them are gaps,
// which hold zeros at first and may be written to, so an update may run over all of it.
struct Shard {
  struct Part {
    uint32_t parameter = 0;  // position in the list
    uint64_t first = 0;      // element of the parameter
    uint64_t at = 0;         // element of the shard
    uint64_t elements = 0;
    friend bool operator==(const Part&, const Part&) = default;
  };
  uint32_t bucket = 0;  // position in plan().buckets()
  DType dtype = f32;
  tn_span gradient{};         // averages, after `finish`
  tn_span parameter{};        // to be updated before `gather`
  std::vector<Part> parts{};  // what it holds; none: nothing but gaps
};

// Gradients of one rank, and what sends them. Move-only; what is in flight is seen out when it ends.
// Unless it says otherwise a call belongs to one thread at a time, enqueues and does not block. A failed collective is the
// end: that call, or the stream's next sync, tells why, naming the rank, and so does every later call here.
class TN_API GradientSync {
 public:
  // All ranks together, with the same parameters (names, types, sizes, in one order) and options; a Gradient's times are a
  // guess that measuring replaces. Splits `comm`, one communicator for each stream. TN_MISMATCH on all ranks, with what the
  // ranks have instead, when they differ; TN_UNSUPPORTED for a hook in sharded mode, or a device that cannot divide; TN_INVALID as
  // plan_communication, for a sparse gradient without row_elements or most_rows, or a hook without all_reduce; failures of the
  // communicator and the hook. [one thread; blocks; may fail]
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
  // measured step. TN_INVALID before the last one is finished, and gathered in sharded mode; TN_MISMATCH as `create`.
  // [stream's thread; may block; may fail]
  Result<bool> begin(Stream& compute, Backward how = Backward::sync);
  // Whether the backward that runs is measured: when each gradient is told of then, is what the next plan knows.
  // [one thread; does not block; cannot fail]
  bool measures() const noexcept;
  // What writes gradient `i` was enqueued on `compute`. TN_INVALID naming the parameter when it was ready before in this
  // backward. [stream's thread; does not block, unless sync_nccl_allreduce; may fail]
  Status ready(uint32_t i);
  // The same for one that is complete at `when`, a point of another stream.
  Status ready(uint32_t i, const Point& when);
  // The same for one that lies elsewhere on this device, as long as its slot: what was brought of a bucket is copied there by
  // one kernel when the bucket leaves, and back by one in `finish`, but not in sharded mode; it must live until what `finish`
  // enqueued is done. Blocks while that kernel is compiled: when other members are brought than in the step before.
  Status bring(uint32_t i, const tn_span& gradient);
  // The same for a sparse parameter: rows of its gradient, an i64 index and row_elements values for each, in any order, an index as
  // often as it comes; most_rows at most. They leave in `finish` and live as long as what `bring` brings. TN_INVALID naming the
  // parameter, also in a backward of no_sync: rows are not held back.
  Status bring_rows(uint32_t i, const tn_span& indices, const tn_span& values);
  // Where all ranks' rows of a sparse parameter are after `finish`, in its stream's order, until `begin` says true; empty for
  // one that is not sparse. Every rank updates by all of them, in sharded mode, too. [any-thread; does not block; cannot fail]
  SparseRows rows(uint32_t i) const noexcept;
  // All gradients of this backward were told of. Parameters without one contribute zeros. Later work on `stream` finds the
  // averages of all ranks; in sharded mode in `shards` only, and what else is in gradients is undefined. TN_INVALID for too
  // many samples. [stream's thread; does not block, unless sync_nccl_allreduce, or a sum or the last but one finish is not done; may fail]
  Status finish(Stream& stream, const Contribution& mine = {});

  // The first half of `finish`, which after it sends nothing and does not look at its contribution: all gradients of this backward
  // were told of, and the last bucket leaves. TN_INVALID for too many samples, or a second time.
  // [stream's thread; does not block, unless as finish; may fail]
  Status send(const Contribution& mine = {});
  // Between `send` and `finish`: later work on `stream` finds the sums over all ranks, in sharded mode of this rank's shard, of what
  // bucket `bucket` of plan() holds, in its place and not divided, whatever else is on its way. A gradient that is cut has several. Such
  // work is enqueued on the stream of `finish`, or that stream waits for it before. TN_INVALID unless Average::none; where plan().gate()
  // tells why updates wait; for a bucket that the plan has not. [stream's thread; does not block; may fail]
  Status await_bucket(Stream& stream, uint32_t bucket);

  // A sum that forward or backward itself needs, with SyncOptions::sums: `numbers`, of this rank by what is on `stream` so far, become
  // those of all ranks, in place, for later work on `stream`. It goes on a stream and a communicator of its own, before buckets
  // that are not on their way. All ranks call it as often as each other, with as many numbers, between the same calls of `begin`
  // and `finish`. Inside a backward that sends, blocks until the sum before it is there. TN_INVALID without the option, or for bytes
  // that are no elements. [stream's thread; may block; may fail]
  Status sum(Stream& stream, const tn_span& numbers, DType dtype);

  // For a rank that has no more batches, while others have: one step to which it brings zeros, no samples, and what no_sync
  // held back. True: others brought something; the averages are there for `stream`, as after `finish`, perhaps in new places,
  // and this rank updates its parameters by them as all do. False, on all ranks at once: all are done, nothing is to update.
  //   while (TN_TRY(sync.join(stream))) …;  // update
  // With Average::ranks its zeros count as a rank's. TN_INVALID with SyncOptions::sums, to which a rank without batches brings
  // nothing; and failures as `begin` and `finish`.
  // [stream's thread; blocks; may fail]
  Result<bool> join(Stream& stream);

  // Sharded mode: where parameter `i` lives, always whole but for gathers on their way; the caller writes its first value, the
  // same on all ranks. Zeros before; empty in other modes. [any-thread; does not block; cannot fail]
  tn_span parameter(uint32_t i) const noexcept;
  // Sharded mode: what this rank updates, in the order of the buckets. It never changes.
  // [any-thread; does not block; cannot fail]
  std::span<const Shard> shards() const noexcept;
  // Sharded mode, once after each `finish`: the shards' updates were enqueued on `updated`, or there is none to make. All ranks
  // get each other's, in the order in which the next forward needs them; this overwrites what work enqueued here so far on
  // `updated`, or on the stream of `begin`, reads. TN_INVALID in other modes, or before a step is finished.
  // [stream's thread; does not block, unless sync_nccl_allreduce; may fail]
  Status gather(Stream& updated);
  // Sharded mode: later work on `stream` finds parameter `i` as all ranks have updated it. Such work ends before this object
  // does. TN_INVALID between `finish` and `gather`. [stream's thread; does not block; may fail]
  Status await(Stream& stream, uint32_t i);

  // What the ranks brought to the last finished step: samples, ranks that found a number that is not finite, how many ranks
  // used each parameter (none: its average is zero). Until the next `begin`. [stream's thread; blocks; may fail]
  Result<CommTail::Reading> totals(Stream& stream);
  // One f32 by which sums are divided: after `finish`, in its stream's order. [any-thread; does not block; cannot fail]
  tn_span divisor() const noexcept;
  // Bytes copied so far to bring gradients together and back, and what was enqueued to do so: none, unless they were brought
  // from elsewhere, as rows are. [any-thread; does not block; cannot fail]
  uint64_t copied_bytes() const noexcept;
  uint64_t copy_launches() const noexcept;

  struct State;

 private:
  explicit GradientSync(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

}  // namespace tenon
