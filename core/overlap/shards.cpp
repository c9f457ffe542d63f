// SPDX-License-Identifier: Apache-2.0
// shards.cpp: blocks of views as ranges of parameters, and the all-gathers that make them whole.
#include "overlap/shards.hpp"

#include <algorithm>

namespace tenon::overlap {

Range own_range(const BucketView& view, const CommPlan& plan, uint32_t rank) noexcept {
  if (!view.whole) {
    const uint64_t block = view.bytes / plan.ranks();
    return {view.offset + rank * block, block};
  }
  const uint64_t tail = plan.tail().offset;
  const bool holds_tail = view.offset <= tail && tail < view.offset + view.bytes;
  return {view.offset, holds_tail ? tail - view.offset : view.bytes};
}

Result<Shards> Shards::prepare(Device& device, std::span<Lane> lanes, const CommPlan& plan,
                               const Buffer& gradients, const Timeline& timeline) {
  Shards out;
  out.timeline_ = timeline;
  Stream& line = lanes[0].stream;
  out.lanes_ = lanes;
  out.waits_ = plan.options().sync_nccl_allreduce;
  out.parameters_ = TN_TRY(device.allocate(line, plan.tail().offset));
  TN_TRY(line.fill(out.parameters_));
  TN_TRY(line.sync());  // who writes the first values does so on a stream of its own
  for (const Arena::Slot& slot : plan.arena().slots)
    out.slots_.push_back(TN_TRY(out.parameters_.slice(slot.offset, slot.bytes)));
  out.bucket_of_.resize(out.slots_.size());
  out.there_.resize(plan.buckets().size());
  out.gather_of_.resize(plan.buckets().size());
  for (uint32_t i = 0; i < plan.buckets().size(); ++i) TN_TRY(out.add_shards(plan, i, gradients));
  for (const uint32_t i : plan.gathers()) TN_TRY(out.add_gather(plan, i));
  return out;
}

Status Shards::add_shards(const CommPlan& plan, uint32_t bucket, const Buffer& gradients) {
  for (const BucketMember& member : plan.buckets()[bucket].members) bucket_of_[member.gradient] = bucket;
  for (const BucketView& view : plan.buckets()[bucket].views) {
    const Range own = own_range(view, plan, lanes_[0].comm.rank());
    if (own.bytes == 0) continue;  // of the tail alone
    Shard shard{.bucket = bucket, .dtype = view.dtype};
    shard.gradient = TN_TRY(gradients.slice(own.offset, own.bytes));
    shard.parameter = TN_TRY(parameters_.slice(own.offset, own.bytes));
    const uint64_t width = bytes(view.dtype, 1);
    for (const BucketMember& member : plan.buckets()[bucket].members) {
      const uint64_t begin = std::max(member.offset, own.offset);
      const uint64_t end = std::min(member.offset + member.bytes, own.offset + own.bytes);
      if (begin >= end) continue;
      shard.parts.push_back({.parameter = member.gradient,
                             .first = (member.first + begin - member.offset) / width,
                             .at = (begin - own.offset) / width,
                             .elements = (end - begin) / width});
    }
    own_.push_back(std::move(shard));
  }
  return {};
}

Status Shards::add_gather(const CommPlan& plan, uint32_t bucket) {
  const Bucket& from = plan.buckets()[bucket];
  Gather gather{.bucket = bucket,
                .lane = from.stream,
                .first_op = static_cast<uint32_t>(ops_.size()),
                .name = "gather of bucket " + std::to_string(bucket),
                .bytes = from.bytes,
                .predicted_ns = from.gather_end_ns - from.gather_start_ns};
  for (const BucketView& view : from.views) {
    if (view.whole) continue;
    const Range own = own_range(view, plan, lanes_[0].comm.rank());
    ops_.push_back(CommOp::all_gather(TN_TRY(parameters_.slice(own.offset, own.bytes)),
                                      TN_TRY(parameters_.slice(view.offset, view.bytes)), view.dtype));
  }
  gather.ops = static_cast<uint32_t>(ops_.size()) - gather.first_op;
  gather_of_[bucket] = static_cast<uint32_t>(gathers_.size());
  gathers_.push_back(std::move(gather));
  return {};
}

Status Shards::submit(Lane& lane, const Gather& gather) {
  const Timeline::Work work{.kind = TraceKind::collective,
                            .name = gather.name,
                            .bytes = gather.bytes,
                            .bucket = gather.bucket,
                            .predicted_ns = gather.predicted_ns};
  return timeline_.measure(lane.stream, work, [&] {
    return lane.comm.submit(lane.stream, std::span(ops_).subspan(gather.first_op, gather.ops));
  });
}

Status Shards::gather(Stream& updated, Stream& compute) {
  const Point written = TN_TRY(updated.record())
  , read = TN_TRY(compute.record());
  for (Lane& lane : lanes_) {
    TN_TRY(timeline_.measure(lane.stream, {.kind = TraceKind::wait, .name = "updates"}, [&]() -> Status {
      TN_TRY(lane.stream.wait(written));
      return lane.stream.wait(read);
    }));
  }
  for (const Gather& gather : gathers_) {
    Lane& lane = lanes_[gather.lane];
    if (gather.ops > 0) TN_TRY(submit(lane, gather));
    there_[gather.bucket] = TN_TRY(lane.stream.record());
    if (!waits_) continue;
    TN_TRY(timeline_.measure_host({.name = gather.name, .bucket = gather.bucket},
                                  [&] { return lane.stream.sync(); }));
  }
  return {};
}

Status Shards::follow(Stream& stream, uint32_t i) {
  const Gather& gather = gathers_[gather_of_[bucket_of_[i]]];
  return timeline_.measure(stream, {.kind = TraceKind::wait, .name = gather.name, .bucket = gather.bucket},
                           [&] { return stream.wait(there_[gather.bucket]); });
}

}  // namespace tenon::overlap
