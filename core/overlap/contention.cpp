// SPDX-License-Identifier: Apache-2.0
// contention.cpp: fills of memory, one after the other without a pause, stand for computing: first alone, then until a collective
// that began with them is over.
#include "overlap/contention.hpp"

#include "base/clock.hpp"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

namespace tenon::overlap {
namespace {

constexpr double worth_telling_ns = 200'000, long_enough_ns = 10'000'000;  // of moving bytes
constexpr uint64_t filled = 1 << 20;                                       // stays in a cache
constexpr uint32_t turns = 20, most_turns = 10 * turns;                    // of a collective alone
constexpr int repeats = 4;
constexpr double little_lost = 0.05, little_slower = 1.1;  // what measuring may be off by

class Computing {
 public:
  // What takes about `turn_ns` alone is a turn.
  static Result<Computing> open(Device& device, double turn_ns) {
    Computing out;
    out.stream_ = TN_TRY(device.stream({.name = "contention"}));
    out.memory_ = TN_TRY(device.allocate(out.stream_, filled));
    out.fills_ = 8;
    const double fill_ns = TN_TRY(out.turn_ns())
    / out.fills_;
    out.fills_ = static_cast<uint32_t>(std::clamp(turn_ns / fill_ns, 1.0, 1024.0));
    return out;
  }

  struct Ran {
    uint32_t turns = 0;
    double ns = 0;
  };
  // Turns until over(turns so far) says true, with another behind each so that there is no pause. [one thread; blocks; may fail]
  template <class Over>
  Result<Ran> until(Over&& over) {
    Ran ran;
    Point next = TN_TRY(turn());
    TN_TRY(next.sync());
    const uint64_t start = base::now_ns();
    for (next = TN_TRY(turn()); !TN_TRY(over(ran.turns)); ++ran.turns) {
      const Point behind = TN_TRY(turn());
      TN_TRY(std::exchange(next, behind).sync());
    }
    ran.ns = static_cast<double>(base::now_ns() - start);
    TN_TRY(next.sync());
    return ran;
  }
  // Of a turn alone.
  Result<double> turn_ns() {
    const Ran ran = TN_TRY(until([](uint32_t done) { return Result<bool>(done == turns); }));
    return ran.ns / turns;
  }

 private:
  Result<Point> turn() {
    for (uint32_t i = 0; i < fills_; ++i) TN_TRY(stream_.fill(memory_));
    return stream_.record();
  }

  Stream stream_{};
  Buffer memory_{};
  uint32_t fills_ = 1;
};

// The largest whose bytes move within long_enough_ns; 0: even all of them are not worth telling.
uint64_t telling_size(const CostTable& cost, uint64_t most) {
  const auto moving = [&](uint64_t bytes) { return cost.ns(bytes) - cost.latency_ns(); };
  if (moving(most) < worth_telling_ns) return 0;
  uint64_t out = most;
  while (moving(out) > long_enough_ns && moving(out / 2) >= worth_telling_ns) out /= 2;
  return out;
}

}  // namespace

Result<Contention> measure_contention(Device& device, Lane& lane, uint64_t bytes,
                                      const Collective& collective, const CostTable& cost) {
  Trial trial = TN_TRY(Trial::open(device, lane, bytes));
  const uint64_t size = telling_size(cost, trial.bytes());
  if (size == 0) return Contention{};
  const double latency = cost.latency_ns(), moving = cost.ns(size) - latency;
  Computing computing = TN_TRY(Computing::open(device, moving / turns));
  // The least: what else a machine does comes and goes.
  double turn_ns = std::numeric_limits<double>::infinity();
  Computing::Ran least{.ns = turn_ns};
  for (int i = 0; i < repeats; ++i) {
    turn_ns = std::min(turn_ns, TN_TRY(computing.turn_ns()));
    TN_TRY(lane.comm.barrier(lane.stream));
    TN_TRY(lane.stream.sync());
    TN_TRY(trial.run(collective, size));
    const Point over = TN_TRY(lane.stream.record());
    const auto ran = TN_TRY(computing.until([&](uint32_t done) {
      return done == 0 || done == most_turns ? Result<bool>(done != 0) : over.reached();
    }));
    TN_TRY(over.sync());
    if (ran.ns < least.ns) least = ran;
  }
  std::vector<double> found{(least.ns - least.turns * turn_ns) / moving, (least.ns - latency) / moving};
  TN_TRY(greatest(device, lane, found));
  const Contention out{std::clamp(found[0], 0.0, 1.0), std::max(found[1], 1.0)};
  return out.occupies < little_lost && out.slowed < little_slower ? Contention{} : out;
}

}  // namespace tenon::overlap
