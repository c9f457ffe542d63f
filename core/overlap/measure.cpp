// SPDX-License-Identifier: Apache-2.0
// measure.cpp: times on this rank, made one with those of the others.
#include "overlap/measure.hpp"

#include "base/clock.hpp"

#include <algorithm>
#include <functional>

namespace tenon::overlap {
namespace {

constexpr uint64_t smallest = 256, largest = 16 << 20;
constexpr int repeats = 4;  // of which the first is not counted
constexpr double worth_telling_ns = 100'000, long_enough_ns = 10'000'000;  // of moving bytes
constexpr uint64_t filled = 1 << 20;
constexpr int fewest_fills = 8, most_fills = 4096;
constexpr double nominal_latency_ns = 20'000, nominal_ns_per_byte = 0.2;

// `all` is what takes part: what is reduced, or what the ranks' blocks make; `own` is this rank's block.
using Collective = std::function<Status(Lane& lane, const tn_span& all, const tn_span& own)>;

Status reduce_scatter(Lane& lane, const tn_span& all, const tn_span& own) {
  return lane.comm.reduce_scatter(lane.stream, all, own, f32);
}
Status all_gather(Lane& lane, const tn_span& all, const tn_span& own) {
  return lane.comm.all_gather(lane.stream, own, all, f32);
}
// Of the hook, if there is one.
Collective all_reduce(const CommHook& hook) {
  return [&hook](Lane& lane, const tn_span& all, const tn_span&) {
    return hook.name.empty() ? lane.comm.all_reduce(lane.stream, all, all, f32)
                             : hook.all_reduce(lane.comm, lane.stream, all, f32);
  };
}

Result<double> time_once(Lane& lane, const Collective& run, const tn_span& all, const tn_span& own) {
  const uint64_t start = base::now_ns();
  TN_TRY(run(lane, all, own));
  TN_TRY(lane.stream.sync());
  return static_cast<double>(base::now_ns() - start);
}

Result<double> least_time(Lane& lane, const Collective& run, const tn_span& all, const tn_span& own) {
  TN_TRY(time_once(lane, run, all, own));
  double least = TN_TRY(time_once(lane, run, all, own));
  for (int i = 2; i < repeats; ++i) least = std::min(least, TN_TRY(time_once(lane, run, all, own)));
  return least;
}

// The same size for all ranks' blocks, of which `size` bytes have room.
struct Spans {
  tn_span all{}, own{};
};
Result<Spans> spans_of(const Buffer& zeros, uint64_t size, const Communicator& comm) {
  const uint64_t block = size / sizeof(float) / comm.size() * sizeof(float);
  return Spans {
    TN_TRY(zeros.slice(0, block * comm.size()))
    , TN_TRY(zeros.slice(comm.rank() * block, block))
  };
}

Result<CostTable> measured(Device& device, Lane& lane, const Buffer& zeros, std::span<const uint64_t> sizes,
                           const Collective& run) {
  std::vector<double> times;
  for (const uint64_t size : sizes) {
    const Spans spans = TN_TRY(spans_of(zeros, size, lane.comm));
    times.push_back(TN_TRY(least_time(lane, run, spans.all, spans.own)));
  }
  TN_TRY(greatest(device, lane, times));
  std::vector<CostTable::Point> points;
  for (size_t i = 0; i < sizes.size(); ++i) points.push_back({sizes[i], times[i]});
  return CostTable::measured(std::move(points));
}

// Computing that can be counted: fills of memory that stays in a cache.
class Fills {
 public:
  static Result<Fills> open(Device& device) {
    Fills out;
    out.stream_ = TN_TRY(device.stream({.name = "occupied"}));
    out.memory_ = TN_TRY(device.allocate(out.stream_, filled));
    TN_TRY(out.time(fewest_fills));
    return out;
  }
  Result<double> time(int count) {
    const uint64_t start = base::now_ns();
    for (int i = 0; i < count; ++i) TN_TRY(stream_.fill(memory_));
    TN_TRY(stream_.sync());
    return static_cast<double>(base::now_ns() - start);
  }

 private:
  Stream stream_{};
  Buffer memory_{};
};

// The largest whose bytes move within long_enough_ns; 0: even all of them are not worth telling.
uint64_t telling_size(const CostTable& cost, uint64_t most) {
  const auto moving = [&](uint64_t bytes) { return cost.ns(bytes) - cost.latency_ns(); };
  if (moving(most) < worth_telling_ns) return 0;
  uint64_t out = most;
  while (out / 2 >= smallest && moving(out) > long_enough_ns) out /= 2;
  return out / smallest * smallest;
}

}  // namespace

bool has_costs(const CommTarget& target, bool sharded) noexcept {
  return sharded ? target.reduce_scatter && target.all_gather : !target.all_reduce.empty();
}

void set_nominal_costs(CommTarget& target) {
  const CostTable nominal = CostTable::linear(nominal_latency_ns, nominal_ns_per_byte);
  target.all_reduce = {CommTarget::Measured{.route = Route::flat, .cost = nominal}};
  target.reduce_scatter = target.all_gather = nominal;
}

Status measure_costs(Device& device, Lane& lane, uint64_t bytes_sent, bool sharded, const CommHook& hook,
                     CommTarget& target) {
  const uint64_t most = std::clamp(bytes_sent, 2 * smallest, largest) / smallest * smallest;
  const Buffer zeros = TN_TRY(device.allocate(lane.stream, most));
  TN_TRY(lane.stream.fill(zeros));
  std::vector<uint64_t> sizes;
  for (uint64_t bytes = smallest; bytes < most; bytes *= 16) sizes.push_back(bytes);
  sizes.push_back(most);
  if (!sharded) {
    CostTable cost = TN_TRY(measured(device, lane, zeros, sizes, all_reduce(hook)));
    target.all_reduce = {CommTarget::Measured{.route = Route::flat, .cost = std::move(cost)}};
    return {};
  }
  target.reduce_scatter = TN_TRY(measured(device, lane, zeros, sizes, reduce_scatter));
  target.all_gather = TN_TRY(measured(device, lane, zeros, sizes, all_gather));
  return {};
}

// Fills alone, then beside one collective that begins with them and ends before: what they took longer is what it took away.
Result<double> measure_occupied(Device& device, Lane& lane, uint64_t bytes_sent, bool sharded,
                                const CommHook& hook, const CommTarget& target) {
  const auto flat = std::find_if(target.all_reduce.begin(), target.all_reduce.end(),
                                 [](const auto& one) { return one.route == Route::flat; });
  if (!sharded && flat == target.all_reduce.end()) return 0.0;
  const CostTable& cost = sharded ? target.reduce_scatter : flat->cost;
  const uint64_t size = telling_size(cost, std::clamp(bytes_sent, 2 * smallest, largest));
  if (size == 0) return 0.0;
  const Collective run = sharded ? Collective(reduce_scatter) : all_reduce(hook);
  const Buffer zeros = TN_TRY(device.allocate(lane.stream, size));
  TN_TRY(lane.stream.fill(zeros));
  const Spans spans = TN_TRY(spans_of(zeros, size, lane.comm));
  Fills fills = TN_TRY(Fills::open(device));
  const double one = TN_TRY(fills.time(fewest_fills))
  / fewest_fills;
  const int count =
      static_cast<int>(std::clamp(3 * cost.ns(size) / one, 1.0 * fewest_fills, 1.0 * most_fills));
  std::vector<double> taken;
  for (int i = 0; i < repeats; ++i) {
    const double alone = TN_TRY(fills.time(count));
    TN_TRY(run(lane, spans.all, spans.own));
    taken.push_back(TN_TRY(fills.time(count)) - alone);
    TN_TRY(lane.stream.sync());
  }
  std::nth_element(taken.begin(), taken.begin() + repeats / 2, taken.end());
  std::vector<double> part{taken[repeats / 2] / (cost.ns(size) - cost.latency_ns())};
  TN_TRY(greatest(device, lane, part));
  return std::clamp(part[0], 0.0, 1.0);
}

Status Arrivals::note(uint32_t gradient, Stream& stream) {
  host_ns_[gradient] = base::now_ns();
  if (!clock_) return {};
  points_[gradient] = TN_TRY(stream.record(Timed::yes));
  return {};
}

Status Arrivals::close() {
  std::vector<uint64_t> times = host_ns_;
  for (size_t i = 0; i < points_.size() && clock_; ++i) {
    if (host_ns_[i] == 0) continue;
    TN_TRY(points_[i].sync());
    auto time = points_[i].timestamp();
    clock_ = time.ok();
    if (clock_) times[i] = *time;
  }
  if (!clock_) times = host_ns_;  // the order and pace in which kernels were enqueued
  uint64_t first = UINT64_MAX, last = 0;
  for (const uint64_t time : times) {
    if (time == 0) continue;
    first = std::min(first, time);
    last = std::max(last, time);
  }
  for (size_t i = 0; i < times.size() && last != 0; ++i) {
    const auto since = static_cast<double>((times[i] == 0 ? last : times[i]) - first);
    least_ns_[i] = backwards_ == 0 ? since : std::min(least_ns_[i], since);
  }
  std::fill(host_ns_.begin(), host_ns_.end(), 0);
  std::fill(points_.begin(), points_.end(), Point());
  ++backwards_;
  return {};
}

Result<bool> Arrivals::take(Device& device, Lane& lane, StepProfile& step) {
  if (backwards_ == 0) return false;
  TN_TRY(greatest(device, lane, least_ns_));
  for (size_t i = 0; i < least_ns_.size(); ++i) step.gradients[i].ready_ns = least_ns_[i];
  backwards_ = 0;
  return true;
}

}  // namespace tenon::overlap
