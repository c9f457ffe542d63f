// SPDX-License-Identifier: Apache-2.0
// issuer.cpp: from gradients that are ready to buckets that are on their way.
#include "overlap/issuer.hpp"

#include "base/text.hpp"
#include "overlap/shards.hpp"

#include <algorithm>

namespace tenon::overlap {

tn_span Issuer::part(const tn_span& whole, uint64_t offset, uint64_t bytes) noexcept {
  tn_span out = whole;
  out.offset += offset;
  out.bytes = bytes;
  return out;
}

Result<Issuer> Issuer::prepare(Device& device, std::span<Lane> lanes, const CommPlan& plan,
                               const Buffer& arena, const CommHook& hook, const Timeline& timeline) {
  Issuer out;
  out.timeline_ = timeline;
  if (plan.ranks() > 1) out.hook_ = hook;
  out.plan_ = plan;
  out.lanes_ = lanes;
  TN_TRY(out.lay_out(device, arena));
  TN_TRY(out.make_stage(device));
  const size_t count = plan.step().gradients.size();
  out.pending_.resize(out.launches_.size());
  out.arrived_.resize(count);
  out.used_.resize(count);
  out.points_.resize(count);
  out.brought_.resize(count);
  out.parts_.reserve(out.members_.size());
  return out;
}

// Sums of whole views on all ranks, of sharded ones on the rank whose block it is. A hook gets all but the tail, which has to
// stay exact.
Status Issuer::add_ops(const Bucket& bucket, const Buffer& arena) {
  for (const BucketView& view : bucket.views) {
    const Range own = own_range(view, plan_, lanes_[0].comm.rank());
    const uint64_t hooked = hook_.name.empty() ? 0 : own.bytes;
    if (hooked > 0) {
      const tn_span gradients = TN_TRY(arena.slice(view.offset, hooked));
      hooked_.push_back({gradients, view.dtype});
      if (hooked == view.bytes) continue;
    }
    const tn_span span = TN_TRY(arena.slice(view.offset + hooked, view.bytes - hooked));
    if (view.whole) {
      ops_.push_back(CommOp::all_reduce(span, span, view.dtype));
      continue;
    }
    ops_.push_back(CommOp::reduce_scatter(span, TN_TRY(arena.slice(own.offset, own.bytes)), view.dtype));
  }
  return {};
}

Status Issuer::lay_out(Device& device, const Buffer& arena) {
  for (const Arena::Slot& slot : plan_.arena().slots)
    slots_.push_back(TN_TRY(arena.slice(slot.offset, slot.bytes)));
  tail_ = TN_TRY(arena.slice(plan_.tail().offset, plan_.tail().bytes));
  std::vector<std::vector<uint32_t>> buckets_of(slots_.size());
  for (const Bucket& bucket : plan_.buckets()) {
    Launch launch{.lane = bucket.stream,
                  .name = "bucket " + std::to_string(launches_.size()),
                  .route = bucket.route,
                  .first_op = static_cast<uint32_t>(ops_.size()),
                  .first_hooked = static_cast<uint32_t>(hooked_.size()),
                  .first_member = static_cast<uint32_t>(members_.size()),
                  .brought = FusedCopy(device, device.limits().max_bindings)};
    for (const BucketMember& member : bucket.members) {
      const tn_span place = TN_TRY(arena.slice(member.offset, member.bytes));
      buckets_of[member.gradient].push_back(static_cast<uint32_t>(launches_.size()));
      members_.push_back({.gradient = member.gradient,
                          .first = member.first,
                          .dtype = plan_.step().gradients[member.gradient].dtype,
                          .place = place});
    }
    TN_TRY(add_ops(bucket, arena));
    launch.ops = static_cast<uint32_t>(ops_.size()) - launch.first_op;
    launch.hooked = static_cast<uint32_t>(hooked_.size()) - launch.first_hooked;
    launch.members = static_cast<uint32_t>(members_.size()) - launch.first_member;
    launches_.push_back(std::move(launch));
  }
  last_of_lane_.resize(lanes_.size());
  for (uint32_t i = 0; i < launches_.size(); ++i) last_of_lane_[launches_[i].lane] = i;
  for (const std::vector<uint32_t>& of : buckets_of) {
    first_bucket_.push_back(static_cast<uint32_t>(buckets_.size()));
    buckets_.insert(buckets_.end(), of.begin(), of.end());
  }
  first_bucket_.push_back(static_cast<uint32_t>(buckets_.size()));
  return {};
}

Status Issuer::make_stage(Device& device) {
  const uint64_t bytes = plan_.tail().bytes;
  stage_.host = TN_TRY(Stage::open(device, lanes_[0].stream, bytes * TailStage::turns));
  for (uint32_t i = 0; i < TailStage::turns; ++i) {
    stage_.words[i] = reinterpret_cast<float*>(stage_.host.data() + i * bytes);
    stage_.spans[i] = TN_TRY(stage_.host.span(i * bytes, bytes));
  }
  return {};
}

void Issuer::begin(const Stream& compute, Backward how, bool held) {
  compute_ = compute;
  how_ = how;
  std::fill(arrived_.begin(), arrived_.end(), uint8_t{0});
  for (size_t i = 0; i < launches_.size(); ++i) pending_[i] = launches_[i].members;
  next_ = 0;
  released_ = held ? 0 : static_cast<uint32_t>(launches_.size());
}

Status Issuer::check(uint32_t gradient) const {
  if (gradient < slots_.size()) return {};
  return Status(TN_INVALID, "there is no parameter " + std::to_string(gradient) + ": there are " +
                                std::to_string(slots_.size()));
}

Status Issuer::check(uint32_t gradient, const tn_span* from) const {
  TN_TRY(check(gradient));
  const std::string& name = plan_.step().gradients[gradient].name;
  if (arrived_[gradient] != 0)
    return Status(TN_INVALID, "parameter " + base::quoted(name) +
                                  " was ready before in this backward: tell of it once, after its last use");
  if (from != nullptr && from->bytes != slots_[gradient].bytes)
    return Status(TN_INVALID, "parameter " + base::quoted(name) + " has a gradient of " +
                                  std::to_string(slots_[gradient].bytes) + " bytes, not " +
                                  std::to_string(from->bytes));
  const uint64_t width = bytes(plan_.step().gradients[gradient].dtype, 1);
  if (from != nullptr && from->space == TN_SPACE_MEMORY && from->offset % width != 0)
    return Status(TN_INVALID, "parameter " + base::quoted(name) + " has a gradient that lies " +
                                  std::to_string(from->offset % width) + " bytes past a multiple of " +
                                  std::to_string(width) + ": bring it at one");
  return {};
}

Status Issuer::check(const Contribution& mine) const {
  if (mine.found_inf.bytes != 0 && mine.found_inf.bytes != sizeof(float))
    return Status(TN_INVALID, "found_inf is one f32, not " + std::to_string(mine.found_inf.bytes) + " bytes");
  if (mine.found_inf.bytes != 0 && !sends())
    return Status(TN_INVALID, "found_inf belongs to the backward that sends, not to one of no_sync");
  if (mine.done && !sends())
    return Status(TN_INVALID,
                  "done belongs to a backward that sends, not to one of no_sync: call join after it");
  const uint64_t most = plan_.tail().max_samples();
  if (mine.samples <= most && held_samples_ <= most - mine.samples) return {};
  return Status(TN_INVALID, std::to_string(mine.samples) + " samples beside " +
                                std::to_string(held_samples_) + " held back, at most " +
                                std::to_string(most) + " can be told");
}

Status Issuer::ready(uint32_t gradient, const Point& when, const tn_span& from) {
  arrived_[gradient] = used_[gradient] = 1;
  points_[gradient] = when;
  brought_[gradient] = from;
  if (!sends()) return {};
  count_in(gradient);
  return launch_ready();
}

void Issuer::count_in(uint32_t gradient) {
  for (uint32_t i = first_bucket_[gradient]; i < first_bucket_[gradient + 1]; ++i) --pending_[buckets_[i]];
}

Status Issuer::launch_ready() {
  while (next_ < released_ && next_ + 1 < launches_.size() && pending_[next_] == 0)
    TN_TRY(launch(next_++, nullptr));
  return {};
}

uint32_t Issuer::complete_buckets() const noexcept {
  uint32_t count = next_;
  while (count + 1 < launches_.size() && pending_[count] == 0) ++count;
  return count;
}

Status Issuer::release(uint32_t buckets) {
  released_ = std::max(released_, buckets);
  return launch_ready();
}

Status Issuer::complete(const Contribution& mine) {
  held_samples_ += mine.samples;
  if (!sends()) {
    ++held_backwards_;
    return {};
  }
  for (uint32_t i = 0; i < slots_.size(); ++i) {
    if (arrived_[i] != 0) continue;
    if (used_[i] == 0) TN_TRY(compute_.fill(slots_[i]));
    count_in(i);
  }
  TN_TRY(release(static_cast<uint32_t>(launches_.size())));
  TN_TRY(launch(next_++, &mine));
  held_backwards_ = 0;
  held_samples_ = 0;
  return {};
}

Status Issuer::launch(uint32_t bucket, const Contribution* mine) {
  Launch& launch = launches_[bucket];
  Lane& lane = lanes_[launch.lane];
  TN_TRY(timeline_.measure(lane.stream, work_of(TraceKind::wait, bucket),
                           [&] { return await_members(lane.stream, launch); }));
  TN_TRY(copy_brought(lane.stream, bucket, Way::in));
  if (mine != nullptr) TN_TRY(send_tail(lane, *mine));
  Timeline::Work work = work_of(TraceKind::collective, bucket);
  work.bytes = plan_.buckets()[bucket].bytes;
  work.predicted_ns = plan_.buckets()[bucket].end_ns - plan_.buckets()[bucket].start_ns;
  TN_TRY(timeline_.measure(lane.stream, work, [&] { return submit(lane, launch); }));
  if (!sums_.empty()) sums_[bucket] = TN_TRY(lane.stream.record());
  if (!plan_.options().sync_nccl_allreduce) return {};
  return timeline_.measure_host(work_of(TraceKind::host, bucket), [&] { return lane.stream.sync(); });
}

Timeline::Work Issuer::work_of(TraceKind kind, uint32_t bucket) const noexcept {
  return {.kind = kind, .name = launches_[bucket].name, .bucket = bucket};
}

Status Issuer::await_members(Stream& stream, const Launch& launch) {
  TN_TRY(stream.wait(TN_TRY(compute_.record())));
  for (uint32_t i = launch.first_member; i < launch.first_member + launch.members; ++i)
    TN_TRY(stream.wait(points_[members_[i].gradient]));
  return {};
}

Status Issuer::submit(Lane& lane, const Launch& launch) {
  for (const Hooked& hooked : std::span(hooked_).subspan(launch.first_hooked, launch.hooked))
    TN_TRY(hook_.all_reduce(lane.comm, lane.stream, hooked.gradients, hooked.dtype));
  if (launch.ops == 0 && launch.hooked > 0) return {};
  const std::span<const CommOp> ops = std::span(ops_).subspan(launch.first_op, launch.ops);
  if (launch.route == Route::flat) return lane.comm.submit(lane.stream, ops);
  return lane.groups.submit(lane.stream, ops, launch.route);
}

Status Issuer::copy_brought(Stream& stream, uint32_t bucket, Way way) {
  Launch& launch = launches_[bucket];
  parts_.clear();
  uint64_t bytes = 0;
  for (const Member& member : std::span(members_).subspan(launch.first_member, launch.members)) {
    const tn_span& elsewhere = brought_[member.gradient];
    if (elsewhere.bytes == 0) continue;
    const tn_span there = part(elsewhere, member.first, member.place.bytes);
    parts_.push_back(way == Way::in ? FusedCopy::Part{member.dtype, member.place, there}
                                    : FusedCopy::Part{member.dtype, there, member.place});
    bytes += member.place.bytes;
  }
  if (parts_.empty()) return {};
  const uint64_t before = launch.brought.launches();
  Timeline::Work work = work_of(TraceKind::copy, bucket);
  work.bytes = bytes;
  TN_TRY(timeline_.measure(stream, work, [&] { return launch.brought.run(stream, parts_); }));
  copied_ += {bytes, launch.brought.launches() - before};
  return {};
}

Status Issuer::send_tail(Lane& lane, const Contribution& mine) {
  const uint32_t turn = stage_.turn++ % TailStage::turns;
  TN_TRY(timeline_.measure_host(work_of(TraceKind::host, static_cast<uint32_t>(launches_.size()) - 1),
                                [&] { return stage_.sent[turn].sync(); }));
  const std::span<float> words(stage_.words[turn], plan_.tail().words());
  TN_TRY(plan_.tail().write(words, held_samples_, false, used_, mine.done));
  TN_TRY(lane.stream.copy(tail_, stage_.spans[turn]));
  stage_.sent[turn] = TN_TRY(lane.stream.record());
  if (mine.found_inf.bytes == 0) return {};
  return lane.stream.copy(part(tail_, CommTail::found_inf_word * sizeof(float), sizeof(float)),
                          mine.found_inf);
}

Status Issuer::follow(Stream& stream, uint32_t bucket) {
  return timeline_.measure(stream, work_of(TraceKind::wait, bucket),
                           [&] { return stream.wait(sums_[bucket]); });
}

Status Issuer::join(Stream& stream) {
  for (size_t i = 0; i < lanes_.size(); ++i) {
    const auto wait = [&]() -> Status { return stream.wait(TN_TRY(lanes_[i].stream.record())); };
    TN_TRY(timeline_.measure(stream, work_of(TraceKind::wait, last_of_lane_[i]), wait));
  }
  return {};
}

Status Issuer::scatter(Stream& stream) {
  if (!plan_.options().sharded) {
    for (uint32_t bucket = 0; bucket < launches_.size(); ++bucket)
      TN_TRY(copy_brought(stream, bucket, Way::back));
  }
  std::fill(used_.begin(), used_.end(), uint8_t{0});
  std::fill(brought_.begin(), brought_.end(), tn_span{});
  std::fill(points_.begin(), points_.end(), Point());
  return {};
}

}  // namespace tenon::overlap
