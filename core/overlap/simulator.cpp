// SPDX-License-Identifier: Apache-2.0
// simulator.cpp: from event to event: one is issued, a latency is over, the last byte has moved.
#include "overlap/simulator.hpp"

#include <algorithm>
#include <limits>

namespace tenon::overlap {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();
constexpr uint32_t none = UINT32_MAX;

class Simulation {
 public:
  Simulation(std::span<const Transfer> transfers, uint32_t streams, double flows, bool sync)
      : transfers_(transfers), flows_(flows), sync_(sync), lanes_(streams), out_(transfers.size()) {}

  std::vector<Span> run() {
    while (done_ < transfers_.size()) {
      issue();
      start();
      advance(std::min(next_issue() - now_, next_change()));
    }
    return std::move(out_);
  }

 private:
  struct Lane {
    std::vector<uint32_t> queue{};
    size_t head = 0;
    uint32_t running = none;
    double latency = 0, work = 0;  // left
  };

  bool may_issue() const { return issued_ < transfers_.size() && (!sync_ || issued_ == done_); }
  double next_issue() const { return may_issue() ? std::max(transfers_[issued_].ready, now_) : never; }

  void issue() {
    while (may_issue() && transfers_[issued_].ready <= now_) {
      lanes_[transfers_[issued_].stream].queue.push_back(static_cast<uint32_t>(issued_));
      ++issued_;
    }
  }

  void start() {
    for (Lane& lane : lanes_) {
      if (lane.running != none || lane.head == lane.queue.size()) continue;
      lane.running = lane.queue[lane.head++];
      const Transfer& transfer = transfers_[lane.running];
      lane.latency = transfer.latency;
      lane.work = transfer.work;
      out_[lane.running].start = now_;
    }
  }

  double speed() const {
    const auto moving = std::count_if(lanes_.begin(), lanes_.end(), [](const Lane& lane) {
      return lane.running != none && lane.latency <= 0;
    });
    return moving == 0 ? 1 : std::min(1.0, flows_ / static_cast<double>(moving));
  }

  // Until a lane changes what it does.
  double next_change() const {
    double least = never;
    for (const Lane& lane : lanes_) {
      if (lane.running == none) continue;
      least = std::min(least, lane.latency > 0 ? lane.latency : lane.work / speed());
    }
    return least;
  }

  void advance(double by) {
    const double moved = by * speed();
    // What would be over by rounding is over.
    const auto less = [](double left, double gone) { return left - gone <= left * 1e-12 ? 0 : left - gone; };
    now_ += by;
    for (Lane& lane : lanes_) {
      if (lane.running == none) continue;
      const bool waits = lane.latency > 0;
      double& left = waits ? lane.latency : lane.work;
      left = less(left, waits ? by : moved);
      if (lane.latency > 0 || lane.work > 0) continue;
      out_[lane.running].end = now_;
      lane.running = none;
      ++done_;
    }
  }

  std::span<const Transfer> transfers_;
  double flows_;
  bool sync_;
  std::vector<Lane> lanes_;
  std::vector<Span> out_;
  double now_ = 0;
  size_t issued_ = 0, done_ = 0;
};

}  // namespace

std::vector<Span> simulate(std::span<const Transfer> transfers, uint32_t streams, double flows, bool sync) {
  return Simulation(transfers, streams, flows, sync).run();
}

}  // namespace tenon::overlap
