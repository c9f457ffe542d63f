// SPDX-License-Identifier: Apache-2.0
// shards.hpp: sharded mode: the part of each bucket that this rank updates, and how what it updated gets to all.
//
// Invariant: parameters lie as their gradients do, so a shard is one range of both; gathers leave in the plan's order.
#pragma once

#include "overlap/lane.hpp"

#include <tenon/device.hpp>
#include <tenon/gradient_sync.hpp>

#include <string>
#include <vector>

namespace tenon::overlap {

// Bytes of the arena.
struct Range {
  uint64_t offset = 0, bytes = 0;
};

// Where rank `rank` finds sums of gradients after the operation on `view`: in its block of it, or in all of it but the tail.
// [any-thread; does not block; cannot fail]
Range own_range(const BucketView& view, const CommPlan& plan, uint32_t rank) noexcept;

class Shards {
 public:
  Shards() = default;
  // Makes room for the parameters, filled with zeros. `lanes` has one for each stream of the plan, and stays where it is;
  // `gradients` is the plan's arena. [one thread; blocks; may fail]
  static Result<Shards> prepare(Device& device, std::span<Lane> lanes, const CommPlan& plan,
                                const Buffer& gradients, const Timeline& timeline);

  std::span<const Shard> own() const noexcept { return own_; }
  tn_span parameter(uint32_t i) const noexcept { return slots_[i]; }
  // Launches the all-gathers, after what is on both streams by now. [stream's thread; may fail]
  Status gather(Stream& updated, Stream& compute);
  // Later work on `stream` follows the gather of parameter `i`. [stream's thread; may fail]
  Status follow(Stream& stream, uint32_t i);
  // Declares what `stream` did with the parameters. [stream's thread; may fail]
  Status used_on(Stream& stream) { return parameters_.used_on(stream); }

 private:
  struct Gather {
    uint32_t bucket = 0, lane = 0;
    uint32_t first_op = 0, ops = 0;
    std::string name{};  // in timelines
    uint64_t bytes = 0;
    double predicted_ns = 0;
  };

  Status add_shards(const CommPlan& plan, uint32_t bucket, const Buffer& gradients);
  Status add_gather(const CommPlan& plan, uint32_t bucket);
  Status submit(Lane& lane, const Gather& gather);

  std::span<Lane> lanes_{};
  Timeline timeline_{};
  Buffer parameters_{};
  std::vector<tn_span> slots_{};
  std::vector<Shard> own_{};
  std::vector<Gather> gathers_{};
  std::vector<uint32_t> gather_of_{};  // of each bucket
  std::vector<CommOp> ops_{};
  std::vector<uint32_t> bucket_of_{};  // of each parameter
  std::vector<Point> there_{};         // the parameters of each bucket
  bool waits_ = false;                 // the host, for each
};

}  // namespace tenon::overlap
