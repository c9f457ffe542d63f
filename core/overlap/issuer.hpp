// SPDX-License-Identifier: Apache-2.0
// issuer.hpp: launches the buckets of one plan, each when its members are ready and all buckets before it have left.
//
// Everything that a step needs is made by `prepare`; a step allocates nothing.
// Invariant: buckets leave in the plan's order, the last one in `complete` alone, because it carries the tail.
#pragma once

#include "overlap/fused_copy.hpp"
#include "overlap/lane.hpp"
#include "overlap/stage.hpp"

#include <tenon/device.hpp>
#include <tenon/gradient_sync.hpp>

#include <array>
#include <string>
#include <vector>

namespace tenon::overlap {

class Issuer {
 public:
  Issuer() = default;
  // `lanes` has one for each stream of the plan, and stays where it is. [all ranks; may block; may fail]
  static Result<Issuer> prepare(Device& device, std::span<Lane> lanes, const CommPlan& plan,
                                const Buffer& arena, const CommHook& hook, const Timeline& timeline);

  // A backward begins on `compute`. `held`: buckets leave in `release` and `complete` only. [stream's thread; cannot fail]
  void begin(const Stream& compute, Backward how, bool held);
  // TN_INVALID for a position that no parameter has. [any-thread; does not block; may fail]
  Status check(uint32_t gradient) const;
  // TN_INVALID, naming the parameter, for what may not be told now. [any-thread; does not block; may fail]
  Status check(uint32_t gradient, const tn_span* from) const;
  // TN_INVALID for a contribution that cannot be told. [any-thread; does not block; may fail]
  Status check(const Contribution& mine) const;
  // After `check`: counts it in, and launches what that completes. `from`: where it lies, when not in its slot.
  // [stream's thread; may fail]
  Status ready(uint32_t gradient, const Point& when, const tn_span& from);
  // How many buckets, from the first on, have left or could leave but for being held. [any-thread; cannot fail]
  uint32_t complete_buckets() const noexcept;
  // Launches so many of them, from the first on, which are complete. [stream's thread; may fail]
  Status release(uint32_t buckets);
  // After `check`: the backward is over; of Backward::sync: launches the rest. [stream's thread; may fail]
  Status complete(const Contribution& mine);
  // From now on `follow` may be called. [one thread; cannot fail]
  void keep_points() { sums_.resize(launches_.size()); }
  // Later work on `stream` follows bucket `bucket`, which has left in this backward. [stream's thread; may fail]
  Status follow(Stream& stream, uint32_t bucket);
  // Later work on `stream` follows all buckets. [stream's thread; may fail]
  Status join(Stream& stream);
  // Gives those that lie elsewhere their averages, where this rank has all of them, and forgets the step.
  // [stream's thread; may fail]
  Status scatter(Stream& stream);

  bool sends() const noexcept { return how_ == Backward::sync; }
  // Whether there are gradients of no_sync that have not left.
  bool holds() const noexcept { return held_backwards_ > 0; }
  CopyTotals copied() const noexcept { return copied_; }
  tn_span slot(uint32_t gradient) const noexcept { return slots_[gradient]; }

 private:
  struct Launch {
    uint32_t lane = 0;
    std::string name{};  // "bucket 2", in timelines
    Route route = Route::flat;
    uint32_t first_op = 0, ops = 0;
    uint32_t first_hooked = 0, hooked = 0;  // ranges that the hook sums
    uint32_t first_member = 0, members = 0;
    FusedCopy brought{};  // of members that do not lie in their slots
  };
  struct Hooked {
    tn_span gradients{};
    DType dtype = f32;
  };
  struct Member {
    uint32_t gradient = 0;
    uint64_t first = 0;  // byte of the gradient
    DType dtype = f32;
    tn_span place{};
  };
  // Where the words of the tail wait to be copied: those of this step and of the one before.
  struct TailStage {
    static constexpr uint32_t turns = 2;
    Stage host{};
    std::array<float*, turns> words{};
    std::array<tn_span, turns> spans{};
    std::array<Point, turns> sent{};
    uint32_t turn = 0;
  };

  Status lay_out(Device& device, const Buffer& arena);
  Status add_ops(const Bucket& bucket, const Buffer& arena);
  Status make_stage(Device& device);
  void count_in(uint32_t gradient);
  Status launch_ready();
  Status launch(uint32_t bucket, const Contribution* mine);
  Timeline::Work work_of(TraceKind kind, uint32_t bucket) const noexcept;
  Status await_members(Stream& stream, const Launch& launch);
  Status submit(Lane& lane, const Launch& launch);
  Status submit_measured(Lane& lane, uint32_t bucket);
  Status send_tail(Lane& lane, const Contribution& mine);
  enum class Way : uint8_t { in, back };
  // Copies those members of the bucket that lie elsewhere.
  Status copy_brought(Stream& stream, uint32_t bucket, Way way);
  static tn_span part(const tn_span& whole, uint64_t offset, uint64_t bytes) noexcept;

  CommPlan plan_{};
  std::span<Lane> lanes_{};
  std::vector<tn_span> slots_{};
  tn_span tail_{};
  std::vector<Launch> launches_{};
  std::vector<CommOp> ops_{};
  CommHook hook_{};
  Timeline timeline_{};
  std::vector<Hooked> hooked_{};
  std::vector<Member> members_{};
  std::vector<Point> sums_{};                         // when each bucket is summed; empty: nobody asks
  std::vector<uint32_t> last_of_lane_{};              // the last bucket of each
  std::vector<uint32_t> first_bucket_{}, buckets_{};  // of gradient g: buckets_[first_bucket_[g] … [g + 1])
  TailStage stage_{};

  Stream compute_{};
  Backward how_ = Backward::sync;
  std::vector<uint32_t> pending_{};          // members that are not ready, of each bucket
  std::vector<uint8_t> arrived_{}, used_{};  // in this backward; since the last one that sent
  std::vector<Point> points_{};              // of gradients that other streams completed
  std::vector<tn_span> brought_{};           // where gradients lie that do not lie in their slots
  std::vector<FusedCopy::Part> parts_{};     // of one copy
  uint32_t next_ = 0;                        // bucket
  uint32_t released_ = 0;                    // buckets that may leave
  uint64_t held_samples_ = 0;
  CopyTotals copied_{};
  uint32_t held_backwards_ = 0;
};

}  // namespace tenon::overlap
