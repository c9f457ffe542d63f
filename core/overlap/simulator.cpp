// SPDX-License-Identifier: Apache-2.0
// simulator.cpp: from event to event: one is issued, a delay or a latency is over, the last byte has moved, computing is done.
#include "overlap/simulator.hpp"

#include <algorithm>
#include <limits>

namespace tenon::overlap {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();
constexpr uint32_t none = UINT32_MAX;

class Simulation {
 public:
  Simulation(std::span<const Transfer> transfers, const Sending& sending, double computing)
      : transfers_(transfers), sending_(sending), computing_(computing), lanes_(sending.streams) {
    out_.spans.resize(transfers.size());
  }

  Simulated run() {
    while (done_ < transfers_.size()) {
      issue();
      start();
      share();
      advance(std::min({next_issue(), next_change(), disturbed() ? until(computing_) : never}));
    }
    return std::move(out_);
  }

 private:
  struct Lane {
    std::vector<uint32_t> queue{};
    size_t head = 0;
    uint32_t running = none;
    double delay = 0, latency = 0, work = 0;  // left, in this order
    bool moves() const { return running != none && delay <= 0 && latency <= 0 && work > 0; }
  };

  bool may_issue() const { return issued_ < transfers_.size() && (!sending_.sync || issued_ == done_); }
  bool is_ready(const Transfer& next) const { return next.ready <= computed_ && next.after <= now_; }

  void issue() {
    for (; may_issue() && is_ready(transfers_[issued_]); ++issued_)
      lanes_[transfers_[issued_].stream].queue.push_back(static_cast<uint32_t>(issued_));
  }

  void start() {
    for (Lane& lane : lanes_) {
      if (lane.running != none || lane.head == lane.queue.size()) continue;
      lane.running = lane.queue[lane.head++];
      const Transfer& transfer = transfers_[lane.running];
      lane.delay = disturbed() ? sending_.contention.delay_ns : 0;
      lane.latency = transfer.latency;
      lane.work = transfer.work;
      out_.spans[lane.running].start = now_;
    }
  }

  // How fast each lane moves, and what computes, until something changes.
  void share() {
    const auto moving = static_cast<double>(
        std::count_if(lanes_.begin(), lanes_.end(), [](const Lane& lane) { return lane.moves(); }));
    speed_ = moving == 0 ? 1 : std::min(1.0, sending_.flows / moving);
    pace_ = 1;
    if (!disturbed()) return;
    speed_ /= sending_.contention.slowed;
    pace_ = std::max(0.0, 1 - sending_.contention.occupies * moving * speed_);
  }

  // Whether there is computing that collectives can be in the way of.
  bool disturbed() const { return sending_.contention && computed_ < computing_; }
  // Until so much is computed.
  double until(double computed) const { return computed <= computed_ ? 0 : (computed - computed_) / pace_; }

  double next_issue() const {
    if (!may_issue()) return never;
    const Transfer& next = transfers_[issued_];
    return std::max(until(next.ready), next.after - now_);
  }

  // Until a lane changes what it does.
  double next_change() const {
    double least = never;
    for (const Lane& lane : lanes_) {
      if (lane.running == none) continue;
      least = std::min(least, lane.delay > 0     ? lane.delay
                              : lane.latency > 0 ? lane.latency
                                                 : lane.work / speed_);
    }
    return least;
  }

  void advance(double by) {
    const double moved = by * speed_;
    // What would be over by rounding is over.
    const auto less = [](double left, double gone) { return left - gone <= left * 1e-12 ? 0 : left - gone; };
    now_ += by;
    computed_ += by * pace_;
    if (sending_.contention) out_.progress.advance(by, by * pace_);
    for (Lane& lane : lanes_) {
      if (lane.running == none) continue;
      double& left = lane.delay > 0 ? lane.delay : lane.latency > 0 ? lane.latency : lane.work;
      left = less(left, &left == &lane.work ? moved : by);
      if (!disturbed()) lane.delay = 0;  // behind computing a turn comes at once
      if (lane.delay > 0 || lane.latency > 0 || lane.work > 0) continue;
      out_.spans[lane.running].end = now_;
      lane.running = none;
      ++done_;
    }
  }

  std::span<const Transfer> transfers_;
  const Sending& sending_;
  double computing_;
  std::vector<Lane> lanes_;
  Simulated out_{};
  double now_ = 0, computed_ = 0;
  double speed_ = 1, pace_ = 1;
  size_t issued_ = 0, done_ = 0;
};

}  // namespace

double Progress::read(double Knot::*from, double Knot::*to, double at) const noexcept {
  const auto next = std::lower_bound(knots_.begin(), knots_.end(), at,
                                     [&](const Knot& knot, double value) { return knot.*from < value; });
  if (next == knots_.end()) return end_.*to + (at - end_.*from);
  const Knot before = next == knots_.begin() ? Knot{} : *std::prev(next);
  if ((*next).*from <= before.*from) return before.*to;
  const double part = (at - before.*from) / ((*next).*from - before.*from);
  return before.*to + part * ((*next).*to - before.*to);
}

double Progress::clock(double computed) const noexcept {
  return read(&Knot::computed, &Knot::clock, computed);
}
double Progress::computed(double clock) const noexcept { return read(&Knot::clock, &Knot::computed, clock); }

void Progress::advance(double clock, double computed) {
  end_ = {end_.clock + clock, end_.computed + computed};
  knots_.push_back(end_);
}

Simulated simulate(std::span<const Transfer> transfers, const Sending& sending, double computing) {
  return Simulation(transfers, sending, computing).run();
}

}  // namespace tenon::overlap
