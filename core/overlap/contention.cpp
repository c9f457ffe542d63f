// SPDX-License-Identifier: Apache-2.0
// contention.cpp: fills of memory, one after the other without a pause, stand for computing: first alone, then beside a collective.
//
// Invariant: while either runs the host sleeps, since what it does would give the other a turn that it has not in a step.
#include "overlap/contention.hpp"

#include "base/clock.hpp"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

namespace tenon::overlap {
namespace {

constexpr uint64_t filled = 4 << 20;
constexpr double turns = 20;   // of computing, in the time that a collective takes alone
constexpr double longer = 12;  // times as long computing goes on beside it
constexpr int repeats = 4;
constexpr double little_lost = 0.05, little_slower = 1.1;  // what measuring may be off by

class Computing {
 public:
  // What takes about `turn_ns` alone is a turn.
  static Result<Computing> open(Device& device, double turn_ns) {
    Computing out;
    out.stream_ = TN_TRY(device.stream({.name = "contention"}));
    out.memory_ = TN_TRY(device.allocate(out.stream_, filled));
    TN_TRY(out.stream_.fill(out.memory_));  // its pages are there
    const double fill_ns = TN_TRY(out.turn_ns(8));
    out.fills_ = static_cast<uint32_t>(std::clamp(turn_ns / fill_ns, 1.0, 1024.0));
    return out;
  }

  // Enqueues so many turns; the times at which each of them begins, and the last ends, are known behind `over`.
  // [one thread; may block; may fail]
  Status run(uint32_t count) {
    marks_.clear();
    marks_.push_back(TN_TRY(stream_.record(Timed::yes)));
    for (uint32_t turn = 0; turn < count; ++turn) {
      for (uint32_t i = 0; i < fills_; ++i) TN_TRY(stream_.fill(memory_));
      marks_.push_back(TN_TRY(stream_.record(Timed::yes)));
    }
    return {};
  }
  // In device time; TN_UNSUPPORTED where there is none. [one thread; blocks; may fail]
  Result<std::vector<uint64_t>> over() {
    TN_TRY(marks_.back().sync());
    std::vector<uint64_t> out;
    for (const Point& mark : marks_) out.push_back(TN_TRY(mark.timestamp()));
    return out;
  }
  // Of a turn alone.
  Result<double> turn_ns(uint32_t count) {
    TN_TRY(run(count));
    const std::vector<uint64_t> times = TN_TRY(over());
    return std::max(1.0, static_cast<double>(times.back() - times.front()) / count);
  }

 private:
  Stream stream_{};
  Buffer memory_{};
  uint32_t fills_ = 1;
  std::vector<Point> marks_{};
};

// What a collective took beside computing, and what of that went into computing.
struct Beside {
  double ns = 0, computed_ns = 0;
};

Result<Beside> run_beside(Trial& trial, const Collective& collective, uint64_t bytes, Computing& computing,
                          uint32_t count, double turn_ns) {
  Stream& stream = trial.lane().stream;
  TN_TRY(trial.lane().comm.barrier(stream));
  TN_TRY(stream.sync());
  TN_TRY(computing.run(count));
  const Point begin = TN_TRY(stream.record(Timed::yes));
  TN_TRY(trial.run(collective, bytes));
  const Point end = TN_TRY(stream.record(Timed::yes));
  const std::vector<uint64_t> times = TN_TRY(computing.over());
  TN_TRY(end.sync());
  // Beside computing ends with it, at the latest.
  const uint64_t from = std::max(TN_TRY(begin.timestamp()), times.front());
  const uint64_t to = std::max(from, std::min(TN_TRY(end.timestamp()), times.back()));
  const auto turns_by = [&](uint64_t time) {
    const auto next = std::upper_bound(times.begin(), times.end(), time);
    if (next == times.begin() || next == times.end()) return next == times.begin() ? 0.0 : count * 1.0;
    const double whole = static_cast<double>(next - times.begin() - 1);
    return whole + static_cast<double>(time - *std::prev(next)) /
                       std::max(1.0, static_cast<double>(*next - *std::prev(next)));
  };
  return Beside{static_cast<double>(to - from), (turns_by(to) - turns_by(from)) * turn_ns};
}

// The least of some attempts: what else a machine does comes and goes.
Result<Contention> measured(Trial& trial, const Collective& collective, uint64_t bytes, const CostTable& cost,
                            Computing& computing) {
  const double latency = cost.latency_ns(), moving = cost.ns(bytes) - latency;
  double turn_ns = std::numeric_limits<double>::infinity();
  Beside least{.ns = turn_ns};
  const auto count = static_cast<uint32_t>(longer * turns);
  for (int i = 0; i < repeats; ++i) {
    turn_ns = std::min(turn_ns, TN_TRY(computing.turn_ns(static_cast<uint32_t>(turns))));
    const Beside found = TN_TRY(run_beside(trial, collective, bytes, computing, count, turn_ns));
    if (found.ns < least.ns) least = found;
  }
  return Contention{(least.ns - least.computed_ns) / moving, (least.ns - latency) / moving};
}

}  // namespace

Result<Contention> measure_contention(Device& device, Lane& lane, uint64_t bytes,
                                      const Collective& collective, const CostTable& cost) {
  Trial trial = TN_TRY(Trial::open(device, lane, bytes));
  const uint64_t size = telling_size(cost, trial.bytes());
  if (size == 0) return Contention{};
  auto computing = Computing::open(device, (cost.ns(size) - cost.latency_ns()) / turns);
  if (!computing.ok() && computing.code() != TN_UNSUPPORTED) return std::move(computing).failure();
  std::vector<double> without_clock{computing.ok() ? 0.0 : 1.0};
  TN_TRY(greatest(device, lane, without_clock));
  if (without_clock[0] > 0) return Contention{};
  const Contention found = TN_TRY(measured(trial, collective, size, cost, *computing));
  std::vector<double> most{found.occupies, found.slowed};
  TN_TRY(greatest(device, lane, most));
  const Contention out{std::clamp(most[0], 0.0, 1.0), std::max(most[1], 1.0)};
  return out.occupies < little_lost && out.slowed < little_slower ? Contention{} : out;
}

}  // namespace tenon::overlap
