// SPDX-License-Identifier: Apache-2.0
// trial.cpp: see trial.hpp.
#include "overlap/trial.hpp"

#include <algorithm>

namespace tenon::overlap {
namespace {

constexpr uint64_t room = 4 * Trial::largest, cache_line = 64;
constexpr double worth_telling_ns = 200'000;

}  // namespace

Collective all_reduce_by(const CommHook& hook) {
  return [&hook](Lane& lane, const tn_span& all, const tn_span&) {
    return hook.name.empty() ? lane.comm.all_reduce(lane.stream, all, all, f32)
                             : hook.all_reduce(lane.comm, lane.stream, all, f32);
  };
}

Collective reduce_scatter() {
  return [](Lane& lane, const tn_span& all, const tn_span& own) {
    return lane.comm.reduce_scatter(lane.stream, all, own, f32);
  };
}

Collective all_gather() {
  return [](Lane& lane, const tn_span& all, const tn_span& own) {
    return lane.comm.all_gather(lane.stream, own, all, f32);
  };
}

uint64_t telling_size(const CostTable& cost, uint64_t most, double longest_ns) {
  const auto moving = [&](uint64_t bytes) { return cost.ns(bytes) - cost.latency_ns(); };
  if (moving(most) < worth_telling_ns) return 0;
  uint64_t out = most;
  while (moving(out) > longest_ns && moving(out / 2) >= worth_telling_ns) out /= 2;
  return out;
}

Result<Trial> Trial::open(Device& device, Lane& lane, uint64_t bytes) {
  Trial out;
  out.lane_ = &lane;
  out.most_ = std::clamp(bytes, 2 * smallest, largest) / smallest * smallest;
  out.zeros_ = TN_TRY(device.allocate(lane.stream, std::clamp(bytes, out.most_, room)));
  TN_TRY(lane.stream.fill(out.zeros_));
  return out;
}

Status Trial::run(const Collective& collective, uint64_t bytes) {
  const Communicator& comm = lane_->comm;
  const uint64_t block = bytes / sizeof(float) / comm.size() * sizeof(float), size = block * comm.size();
  if (at_ + size > zeros_.bytes()) at_ = 0;
  const tn_span all = TN_TRY(zeros_.slice(at_, size));
  const tn_span own = TN_TRY(zeros_.slice(at_ + comm.rank() * block, block));
  at_ += (size + cache_line - 1) / cache_line * cache_line;
  return collective(*lane_, all, own);
}

}  // namespace tenon::overlap
