// SPDX-License-Identifier: Apache-2.0
// averages.hpp: the sums over ranks of a step: gradients, which leave while the launches before them still run, and what forward
// or backward itself needs. In sharded mode sums stay where they are made, and weights come back.
//
// Invariant: a gradient is made where it is sent from, unless somebody else reads it, too; then it is copied there. No launch that
// reads a sum is enqueued before the compute stream waits for each bucket that has some of it.
#pragma once

#include "plan/state.hpp"
#include "train/pieces.hpp"

#include <tenon/gradient_sync.hpp>
#include <tenon/strategy.hpp>
#include <tenon/training.hpp>

#include <memory>
#include <optional>

namespace tenon::train {

// One plan's part in them. Plans of one executor share who sums: whichever is run, gradients have the same places and buckets.
class Averages {
 public:
  struct Open {
    const TrainingGraph& step;
    const Plan& plan;
    const Strategy& strategy;
    const CommTarget& target;
    Timeline timeline{};
  };
  // All ranks together. [one thread; blocks; may fail]
  static Result<Averages> open(const Open& from, Device& device, Communicator& comm);
  // The part of another plan: of `step`, which has the same gradients; or, with samples 0, of one that makes none and has the
  // sums as inputs of their names. TN_INVALID naming the gradient that differs. [one thread; does not block; may fail]
  Result<Averages> beside(const TrainingGraph& step, const Plan& plan, uint64_t samples) const;
  // The part of a rank in sharded mode that has no samples, and so no launches before the sums.
  Averages without_launches() const;

  // A step of any of the plans begins: true when gradients have new places or buckets, and all plans are to be bound anew.
  // [one thread; may block; may fail]
  Result<bool> begin(Stream& compute);
  // Into `bound`, a span for each of what the caller of a plan binds: where sums are, and what they are divided by. Which buckets
  // launches wait for is what it is now. [one thread; does not block; cannot fail]
  void bind(std::span<tn_span> bound);
  // The step that began is measured, gradient by gradient. [one thread; does not block; cannot fail]
  bool measures() const noexcept { return sync_->measures(); }
  // Launches after which something leaves: the last of a bucket, or what has to be copied at once. Ascending.
  std::vector<uint32_t> departures() const;
  // Launches before which sums, or weights of other ranks, are waited for. Ascending.
  std::vector<uint32_t> arrivals() const;
  // Launch `at` was enqueued: what it makes leaves, and what later launches need summed is. `block` is the run's memory.
  // [one thread; may block; may fail]
  Status made(Stream& compute, uint32_t at, const tn_span& block);
  // Launch `at` is the next one: it finds the sums and weights that it needs. [one thread; does not block; may fail]
  Status await(Stream& compute, uint32_t at);
  // All launches were enqueued: the step is over. [one thread; does not block; may fail]
  Status finish(Stream& compute);

  // Sharded mode: what this rank updates, bucket by bucket; and where a weight lives, empty for a name that is none.
  // [one thread; does not block; cannot fail]
  bool is_sharded() const noexcept { return plan().options().sharded; }
  std::vector<Piece> pieces() const;
  tn_span weight(std::string_view name) const noexcept;
  // Sharded mode: the updates are enqueued, and go to all ranks. [one thread; does not block; may fail]
  Status gather(Stream& compute) { return sync_->gather(compute); }
  // Sharded mode: later work on `stream` finds every weight as all ranks have updated it. [one thread; does not block; may fail]
  Status settle(Stream& stream) const;
  tn_span divisor() const noexcept { return sync_->divisor(); }

  const CommPlan& plan() const noexcept { return sync_->plan(); }
  size_t gradients() const noexcept { return all_->size(); }
  size_t sums() const noexcept { return sums_.size(); }
  // Of gradients that somebody else reads, too, in a step.
  uint64_t copied_bytes() const noexcept;

 private:
  enum class Phase : uint8_t { backward, updates, finished };

  // An input that is the sum of gradient `gradient`.
  struct Summed {
    uint32_t bound = 0, gradient = 0;
  };

  Averages() = default;
  void take(const TrainingGraph& step, const Plan::State& plan);
  Status find_gradients(const Plan::State& plan, std::string_view divisor);
  Status find_weights(const Plan::State& plan);
  void find_waits();
  std::vector<uint32_t> buckets_of(uint32_t gradient) const;
  Status bring(Stream& compute, uint32_t exchange, const tn_span& from);

  std::shared_ptr<GradientSync> sync_{};
  Timeline timeline_{};
  std::shared_ptr<const std::vector<Gradient>> all_{};  // as sync_ has them
  uint64_t samples_ = 1;                                // that this rank brings
  std::vector<Plan::State::Exchange> exchanges_{};
  std::vector<uint32_t> gradient_{};               // of each exchange, its position in all_
  std::vector<std::optional<uint32_t>> bucket_{};  // and the first that it leaves with
  std::vector<Summed> summed_{};
  std::vector<Plan::State::Sum> sums_{};
  std::vector<std::vector<uint32_t>> after_{};       // per launch: positions in exchanges_
  std::vector<std::vector<uint32_t>> sums_after_{};  // and in sums_
  std::vector<std::vector<uint32_t>> reads_{};  // per launch: positions in exchanges_ whose sums it reads
  std::vector<std::vector<uint32_t>> waits_{};  // per launch: buckets that no launch before it has waited for
  std::vector<std::vector<uint32_t>>
      weights_{};                 // per launch: gradients whose weights it is the first to read
  uint32_t first_late_ = 0;       // the first launch that needs a sum
  uint32_t first_with_all_ = 0;   // the first that needs all, and the divisor
  uint32_t divisor_ = TN_ABSENT;  // its number among what is bound
  Phase phase_ = Phase::finished;
};

}  // namespace tenon::train
