// SPDX-License-Identifier: Apache-2.0
// overlap.hpp: when gradients leave: which go together, in which order, on which stream, while backward still runs.
//
// Gradients live at their final places in one arena from the first step on, and a bucket is a range of it: nothing is
// copied to be sent. Invariant: equal steps, targets and options give equal plans with equal hashes, on every rank.
#pragma once

#include <tenon/cost_table.hpp>
#include <tenon/export.hpp>
#include <tenon/result.hpp>
#include <tenon/types.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

// A parameter's gradient, as a step brings it.
struct Gradient {
  std::string name{};  // unique; up to its first dot it is the name of the layer
  DType dtype = f32;   // of floating point
  uint64_t elements = 0;
  double ready_ns = 0;   // complete on the last rank, since backward began, with no collective beside it
  double needed_ns = 0;  // its parameter is first read, since the next forward began
  bool sparse = false;   // indices and values: not summed in a bucket
  // Sparse: elements of a row of the table, and the most rows that one rank brings to a step. Plans alone need neither.
  uint64_t row_elements = 0, most_rows = 0;
};

// What one step looks like without communication; times are the longest of all ranks.
struct StepProfile {
  std::vector<Gradient> gradients{};  // in the order of the parameters
  double forward_ns = 0;
  double backward_ns = 0;  // 0: until the last gradient is ready
  double update_ns = 0;
  // Each makes every update wait for all gradients, because it is known only then.
  bool loss_scaling = false, clip_global_norm = false, uneven_batches = true;
  std::string updates_wait{};  // what else does, in words: "enable_backward_optimizer_op_deps"; "": nothing
};

// How the ranks are walked through: one ring or tree; or groups of ranks_per_group, where leaders reduce, exchange and
// broadcast, or where each member exchanges its shard.
enum class Route : uint8_t { flat, leaders, sharded };
// "flat". [any-thread; does not block; cannot fail]
TN_API std::string_view name(Route route) noexcept;

// What moving bytes and computing do to each other where the same processors do both.
struct Contention {
  double occupies = 0;  // computing that is lost, as a part of the time that the bytes take alone
  double slowed = 1;    // how many times as long bytes take beside computing
  double delay_ns = 0;  // by which a collective's bytes begin to move later there: who sends waits for a turn
  explicit operator bool() const noexcept { return occupies > 0 || slowed > 1 || delay_ns > 0; }
};

// What dividing sums by one number takes, behind their collectives. None: an update divides by itself.
struct Division {
  double ns_per_byte = 0;
  bool by_bucket = false;  // as each is there; else all together, when the last one has told by what
  explicit operator bool() const noexcept { return ns_per_byte > 0; }
};

// What planning has to know of a communicator and its device: plain data, which a test or a study of costs writes down.
struct CommTarget {
  struct Measured {
    Route route = Route::flat;
    CostTable cost{};
  };
  std::string name = "ranks";  // for words only
  uint32_t ranks = 1;
  uint32_t ranks_per_group = 0;        // of the hierarchical routes
  std::vector<Measured> all_reduce{};  // each route at most once
  CostTable reduce_scatter{}, all_gather{};
  uint64_t alignment = 64;   // of a slot, in bytes: a power of two from 8 on
  uint32_t max_streams = 4;  // that carry collectives at the same time
  double flows = 1;          // streams' bandwidth that the link carries; 1: one's, or to be measured
  Contention contention{};
  Division division{};
};

// `automatic` chooses by predicted time; the others are rules that are used elsewhere, on the same ground.
enum class BucketRule : uint8_t {
  automatic,
  documents,  // layers in the order of parameters until a group has fuse_grad_size_in_MB, or more than the most gradients
  per_tensor,  // each alone
  ddp,         // in order of arrival: 1 MB, then 25 MB, as floors
  paddle,      // in order of arrival: 32 MiB as a floor
  mg_wfbp,     // merges with the next while waiting costs less than a latency
  none         // everything at once after backward
};

// "per_tensor". [any-thread; does not block; cannot fail]
TN_API std::string_view name(BucketRule rule) noexcept;
// The rule called `text`. TN_NOT_FOUND with the names there are. [any-thread; does not block; may fail]
TN_API Result<BucketRule> bucket_rule_from(std::string_view text);

// Strategy::overlap gives them (strategy.def). A strategy's "auto" is 0 here; fuse_grad_size_in_TFLOPS is read as
// fuse_grad_max_layers, which is what it counts.
struct OverlapOptions {
  BucketRule mode = BucketRule::automatic;
  bool fuse_all_reduce_ops = true;  // false: mode per_tensor
  uint32_t fuse_grad_size_in_mb =
      0;  // in 2^20 bytes; automatic: most of a bucket, 0: no limit; documents: 0: 32
  uint32_t fuse_grad_max_layers = 0;  // gradients; automatic: most of a bucket, 0: no limit; documents: 0: 50
  uint32_t nccl_comm_num = 0;         // streams; automatic: 0: as many as pay
  bool sync_nccl_allreduce = false;   // the host waits for each collective before it issues the next
  bool use_hierarchical_allreduce = false;           // true: never flat; false: the cheapest for each bucket
  uint32_t hierarchical_allreduce_inter_nranks = 0;  // ranks of a group; 0: the target's
  bool fuse_broadcast_ops = true;                    // sharded mode gathers whole buckets
  bool sharded = false;                              // reduce-scatter, update of the own shard, all-gather
  uint32_t partition_mb = 0;  // larger gradients may be cut into pieces; 0: of a size that pays, if any
  bool priority = true;  // what the next forward needs first goes first, where updates start bucket by bucket
  double replan_drift = 0.1;  // of the step's time
};

// Part of a gradient that a bucket carries.
struct BucketMember {
  uint32_t gradient = 0;  // position in the step's list
  uint64_t offset = 0;    // in the arena
  uint64_t first = 0;     // byte of the gradient
  uint64_t bytes = 0;
  friend bool operator==(const BucketMember&, const BucketMember&) = default;
};

// A range of the arena that one operation of a bucket's group works on.
struct BucketView {
  DType dtype = f32;
  uint64_t offset = 0, bytes = 0;  // gaps between slots included; they are zero
  bool whole = true;               // false: each rank keeps its shard of it
  friend bool operator==(const BucketView&, const BucketView&) = default;
};

// What one submit carries.
struct Bucket {
  std::vector<BucketMember> members{};  // in the order of the arena
  std::vector<BucketView> views{};      // mostly one
  uint64_t bytes = 0;                   // of all views
  uint32_t stream = 0;
  Route route = Route::flat;
  // Predicted, since backward began. gather_…: the all-gather of sharded mode.
  double ready_ns = 0, start_ns = 0, end_ns = 0, gather_start_ns = 0, gather_end_ns = 0;
  double needed_ns = 0;  // the earliest of its members
};

// Where gradients live.
struct Arena {
  struct Slot {
    uint64_t offset = 0, bytes = 0;  // no bytes: a sparse gradient, which has no slot
  };
  std::vector<Slot> slots{};  // one for each gradient
  uint64_t bytes = 0;
  uint64_t gap_bytes = 0;     // sent, too
  uint64_t copied_bytes = 0;  // to bring gradients together: none, every bucket is a view
};

// What all ranks have to know beside the gradients rides in the last bucket: float32 words whose sums are exact integers
// below 2^24, in any order of addition. Words 0 to 2 are the count of samples in limbs, word 3 the ranks that found a
// number that is not finite, the rest how many ranks used each parameter, and how many are done with their batches, in fields
// of `field_bits`.
struct CommTail {
  static constexpr uint32_t limbs = 3, found_inf_word = 3, used_word = 4;
  uint64_t offset = 0, bytes = 0;  // in the arena
  uint32_t parameters = 0;
  uint32_t field_bits = 0, fields_per_word = 0, limb_bits = 0;

  struct Reading {
    uint64_t samples = 0;
    uint32_t ranks_with_inf = 0;
    std::vector<uint32_t> ranks_using{};  // one for each parameter
    uint32_t ranks_done = 0;              // that have no more batches
  };
  uint64_t words() const noexcept { return bytes / sizeof(float); }
  // Samples of one rank that can be told.
  uint64_t max_samples() const noexcept { return (uint64_t{1} << (limbs * limb_bits)) - 1; }
  // The words of one rank. TN_INVALID for too many samples, or when `used` is not one for each parameter.
  // [any-thread; does not block; may fail]
  TN_API Result<std::vector<float>> write(uint64_t samples, bool found_inf,
                                          const std::vector<bool>& used) const;
  // The same into `out`, which has words(), from a byte for each parameter that is not 0 where it was used; `done`: this rank
  // has no more batches. Allocates nothing. [any-thread; does not block; may fail]
  TN_API Status write(std::span<float> out, uint64_t samples, bool found_inf, std::span<const uint8_t> used,
                      bool done = false) const;
  // What the sum over all ranks says. TN_INVALID for other than words() numbers, or one that is no such sum.
  // [any-thread; does not block; may fail]
  TN_API Result<Reading> read(std::span<const float> sum) const;
};

// The times that a plan leads to.
struct CommPrediction {
  double communication_ns = 0;  // of all collectives, each alone on the link
  double backward_ns = 0;       // when backward is over, with collectives beside it
  double end_ns = 0;            // of the last one before the update, since backward began
  double averaged_ns = 0;       // when what it brought is divided; end_ns where nothing is
  double exposed_ns = 0;        // by which communication makes the step longer
  double step_ns = 0;
};

// A plan; it never changes, and copies name the same one. What its methods give lives as long as one of the copies.
// All of them: [any-thread; does not block; cannot fail]
//
//   auto plan = TN_TRY(tenon::plan_communication(step, target));
//   std::puts(plan.summary().c_str());    // "161 all-reduce operators, after fusion 6"
class TN_API CommPlan {
 public:
  // An option that could not take effect, or did so in another way.
  struct Note {
    std::string option, effective, reason;
  };

  CommPlan() noexcept = default;
  explicit operator bool() const noexcept { return state_ != nullptr; }

  // In the one order in which every rank launches them.
  std::span<const Bucket> buckets() const noexcept;
  // Of sharded mode: the buckets in the order in which they are gathered. Empty otherwise.
  std::span<const uint32_t> gathers() const noexcept;
  const Arena& arena() const noexcept;
  const CommTail& tail() const noexcept;
  const CommPrediction& predicted() const noexcept;
  const StepProfile& step() const noexcept;
  const OverlapOptions& options() const noexcept;  // as they hold
  std::span<const Note> notes() const noexcept;
  uint32_t streams() const noexcept;
  uint32_t ranks() const noexcept;
  // Why no update starts before the last bucket: "loss scaling", or "" when updates start bucket by bucket.
  std::string gate() const;

  // Of all that ranks have to agree on; predicted times are not part of it.
  uint64_t hash() const noexcept;
  // All that the hash covers, in words, a line each.
  std::string terms() const;
  // "" for plans that run together, else the first thing in which `other` differs, with both values.
  std::string first_difference(const CommPlan& other) const;
  // Buckets of one and not of the other, and how the predictions differ, a line each.
  std::string diff(const CommPlan& other) const;

  // One line for a log.
  std::string summary() const;
  // The summary, the predictions, a table of the buckets, the notes.
  std::string explain() const;
  // The predicted step as text, `columns` wide, and as a picture that stands alone.
  std::string timeline(uint32_t columns = 100) const;
  std::string svg() const;

  struct State;

 private:
  explicit CommPlan(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  friend TN_API Result<CommPlan> plan_communication(const StepProfile& step, const CommTarget& target,
                                                    const OverlapOptions& options);
  std::shared_ptr<const State> state_;
};

// Cuts the gradients of `step` into buckets for `target`. With one stream, mode automatic ends at the earliest time that any
// cut of the gradients in order of arrival can reach; with several it takes the best of what it simulates.
// TN_INVALID naming the gradient, figure or option that cannot be. [any-thread; does not block; may fail]
TN_API Result<CommPlan> plan_communication(const StepProfile& step, const CommTarget& target,
                                           const OverlapOptions& options = {});

// What the buckets of `plan` would take in another step or on another target. TN_INVALID when `step` has other
// gradients. [any-thread; does not block; may fail]
TN_API Result<CommPrediction> predict(const CommPlan& plan, const StepProfile& step,
                                      const CommTarget& target);

// Whether to plan anew.
struct Replan {
  bool due = false;
  double drift = 0;  // of the predicted step
  std::string reason{};
};
// For what has been measured since, computing alone: due between steps, with nothing in flight, when the step would take longer or
// shorter than planned by more than replan_drift of it. TN_INVALID as `predict`. [any-thread; does not block; may fail]
TN_API Result<Replan> judge_replan(const CommPlan& plan, const StepProfile& measured,
                                   const CommTarget& target, bool between_steps, uint32_t in_flight);

}  // namespace tenon
