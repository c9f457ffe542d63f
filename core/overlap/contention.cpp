// SPDX-License-Identifier: Apache-2.0
// contention.cpp: fills of memory, one after the other without a pause, stand for computing: first alone, then beside a collective,
// a short one and a long one.
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
constexpr double turn_ns = 500'000;
constexpr uint32_t turns_alone = 20;
// Of collectives: a short one tells what delays it whatever its size, a long one what slows its bytes.
constexpr double short_ns = 400'000, long_ns = 40'000'000;
constexpr double least_beside_ns = 40'000'000,
                 longer = 3;  // computing goes on beside it: so long, times as long
constexpr int short_repeats = 5, long_repeats = 3;
// Of a collective's bytes: fewer that moved beside computing mean that another rank computed for longer than this one.
constexpr double least_moved = 0.25;
// What measuring may be off by.
constexpr double little_lost = 0.05, little_slower = 1.1, little_delay_ns = 100'000;

class Computing {
 public:
  // Fills that take about turn_ns alone are a turn.
  static Result<Computing> open(Device& device) {
    Computing out;
    out.stream_ = TN_TRY(device.stream({.name = "contention"}));
    out.memory_ = TN_TRY(device.allocate(out.stream_, filled));
    TN_TRY(out.stream_.fill(out.memory_));  // its pages are there
    const double fill_ns = TN_TRY(out.time_of_turn(8));
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
  Result<double> time_of_turn(uint32_t count) {
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

// How many turns that begin at `times`, and end where the next one begins, are over by `time`.
double turns_by(const std::vector<uint64_t>& times, uint64_t time) {
  const auto next = std::upper_bound(times.begin(), times.end(), time);
  if (next == times.begin()) return 0;
  const double whole = static_cast<double>(next - times.begin() - 1);
  if (next == times.end()) return whole;
  const double turn = static_cast<double>(*next - *std::prev(next));
  return whole + static_cast<double>(time - *std::prev(next)) / turn;
}

class Measuring {
 public:
  Measuring(Trial& trial, const Collective& collective, const CostTable& cost, Computing& computing)
      : trial_(trial), collective_(collective), cost_(cost), computing_(computing) {}

  // The usual one of some attempts, by how much longer it took.
  Result<Beside> usual(uint64_t bytes, int repeats) {
    const double alone = cost_.ns(bytes);
    const auto count = static_cast<uint32_t>(std::max(longer * alone, least_beside_ns) / turn_ns) + 1;
    std::vector<Beside> found;
    for (int i = 0; i < repeats; ++i) {
      turn_ = std::min(turn_, TN_TRY(computing_.time_of_turn(turns_alone)));
      found.push_back(TN_TRY(once(bytes, count)));
    }
    const auto middle = found.begin() + repeats / 2;
    std::nth_element(found.begin(), middle, found.end(),
                     [](const Beside& a, const Beside& b) { return a.ns * b.moved < b.ns * a.moved; });
    return *middle;
  }

 private:
  Result<Beside> once(uint64_t bytes, uint32_t count) {
    Stream& stream = trial_.lane().stream;
    TN_TRY(trial_.lane().comm.barrier(stream));
    TN_TRY(stream.sync());
    TN_TRY(computing_.run(count));
    const Point begin = TN_TRY(stream.record(Timed::yes));
    TN_TRY(trial_.run(collective_, bytes));
    const Point end = TN_TRY(stream.record(Timed::yes));
    const std::vector<uint64_t> times = TN_TRY(computing_.over());
    TN_TRY(end.sync());
    const uint64_t from = std::max(TN_TRY(begin.timestamp()), times.front());
    const uint64_t over = std::max(from, TN_TRY(end.timestamp())), to = std::min(over, times.back());
    const double alone = cost_.ns(bytes) - cost_.latency_ns();
    const double behind = static_cast<double>(over - to);  // computing, where bytes move as they do alone
    return Beside{.moved = std::max(alone - behind, least_moved * alone),
                  .ns = static_cast<double>(to - from),
                  .computed = (turns_by(times, to) - turns_by(times, from)) * turn_};
  }

  Trial& trial_;
  const Collective& collective_;
  const CostTable& cost_;
  Computing& computing_;
  double turn_ = std::numeric_limits<double>::infinity();
};

}  // namespace

Contention contention_between(const Beside& short_one, const Beside& long_one, double latency_ns) noexcept {
  const double apart = long_one.moved - short_one.moved;
  const double slope = apart > 0 ? std::max(1.0, (long_one.ns - short_one.ns) / apart) : 1;
  const double delay = std::max(0.0, short_one.ns - latency_ns - slope * short_one.moved);
  return {.occupies = std::clamp((long_one.ns - long_one.computed) / long_one.moved, 0.0, 1.0),
          .slowed = std::max(1.0, (long_one.ns - latency_ns - delay) / long_one.moved),
          .delay_ns = delay};
}

Result<Contention> measure_contention(Device& device, Lane& lane, uint64_t bytes,
                                      const Collective& collective, const CostTable& cost) {
  Trial trial = TN_TRY(Trial::open(device, lane, bytes));
  if (telling_size(cost, trial.bytes()) == 0) return Contention{};
  auto computing = Computing::open(device);
  if (!computing.ok() && computing.code() != TN_UNSUPPORTED) return std::move(computing).failure();
  std::vector<double> without_clock{computing.ok() ? 0.0 : 1.0};
  TN_TRY(greatest(device, lane, without_clock));
  if (without_clock[0] > 0) return Contention{};
  Measuring measuring(trial, collective, cost, *computing);
  const uint64_t few = telling_size(cost, trial.bytes(), short_ns),
                 many = telling_size(cost, trial.bytes(), long_ns);
  const Beside short_one = TN_TRY(measuring.usual(few, short_repeats));
  const Beside long_one = TN_TRY(measuring.usual(many, long_repeats));
  const Contention found = contention_between(short_one, long_one, cost.latency_ns());
  std::vector<double> most{found.occupies, found.slowed, found.delay_ns};
  TN_TRY(greatest(device, lane, most));
  const Contention out{most[0], most[1], most[2]};
  const bool little =
      out.occupies < little_lost && out.slowed < little_slower && out.delay_ns < little_delay_ns;
  return little ? Contention{} : out;
}

}  // namespace tenon::overlap
