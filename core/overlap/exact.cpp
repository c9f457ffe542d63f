// SPDX-License-Identifier: Apache-2.0
// exact.cpp: the dynamic programme of exact.hpp.
#include "overlap/exact.hpp"

#include <algorithm>
#include <limits>

namespace tenon::overlap {
namespace {

// One line of the cost table, for sizes of `from` until below `to`, and the candidates it serves, best first.
struct Line {
  uint64_t from = 0, to = UINT64_MAX;
  double at_from = 0, slope = 0;
  uint32_t next = 0;  // the first i that is still too near
  std::vector<uint32_t> queue{};
  size_t head = 0;

  double ns(uint64_t bytes) const noexcept { return at_from + slope * static_cast<double>(bytes - from); }
};

std::vector<Line> lines_of(const CostTable& cost) {
  std::vector<Line> out;
  const auto points = cost.points();
  if (points.empty()) return {Line{}};
  if (points.front().bytes > 0) out.push_back({.to = points.front().bytes, .at_from = points.front().ns});
  for (size_t k = 0; k < points.size(); ++k) {
    Line line{.from = points[k].bytes, .at_from = points[k].ns, .slope = cost.last_slope()};
    if (k + 1 < points.size()) {
      line.to = points[k + 1].bytes;
      line.slope = (points[k + 1].ns - points[k].ns) / static_cast<double>(line.to - line.from);
    }
    out.push_back(std::move(line));
  }
  return out;
}

class Programme {
 public:
  Programme(std::span<const double> ready, std::span<const uint64_t> sums, const CostTable& cost,
            const Limits& limits)
      : ready_(ready), sums_(sums), cost_(cost), limits_(limits), lines_(lines_of(cost)) {
    end_.resize(ready.size() + 1);
    from_.resize(ready.size() + 1);
  }

  ExactCuts run(double reserve) {
    for (uint32_t j = 1; j < end_.size(); ++j) place(j);
    ExactCuts out{.end = end_.back()};
    double deadline = end_.back();
    for (auto j = static_cast<uint32_t>(ready_.size()); j > 0;) {
      out.cuts.push_back(j);
      const uint32_t i = joined(j, deadline, reserve);
      deadline -= time(i, j) * (i < from_[j] ? 1 + reserve : 1);
      j = i;
    }
    std::reverse(out.cuts.begin(), out.cuts.end());
    return out;
  }

 private:
  double arrival(uint32_t j) const { return ready_[j - 1]; }
  double time(uint32_t i, uint32_t j) const { return cost_.ns(sums_[j] - sums_[i]); }

  bool fits(uint32_t i, uint32_t j) const {
    return j - i == 1 || ((limits_.bytes == 0 || sums_[j] - sums_[i] <= limits_.bytes) &&
                          (limits_.count == 0 || j - i <= limits_.count));
  }

  void place(uint32_t j) {
    while (!fits(lowest_, j)) ++lowest_;
    while (idle_ + 1 < j && end_[idle_ + 1] <= arrival(j)) ++idle_;
    end_[j] = std::numeric_limits<double>::infinity();
    if (idle_ >= lowest_) take(j, idle_, arrival(j) + time(idle_, j));
    for (Line& line : lines_) serve(line, j);
  }

  void serve(Line& line, uint32_t j) {
    const auto key = [&](uint32_t i) { return end_[i] - line.slope * static_cast<double>(sums_[i]); };
    for (; line.next < j && sums_[j] - sums_[line.next] >= line.from; ++line.next) {
      const double mine = key(line.next);
      while (line.queue.size() > line.head && key(line.queue.back()) >= mine) line.queue.pop_back();
      line.queue.push_back(line.next);
    }
    const auto gone = [&](uint32_t i) { return i <= idle_ || i < lowest_ || sums_[j] - sums_[i] >= line.to; };
    while (line.head < line.queue.size() && gone(line.queue[line.head])) ++line.head;
    if (line.head == line.queue.size()) return;
    const uint32_t i = line.queue[line.head];
    take(j, i, end_[i] + line.ns(sums_[j] - sums_[i]));
  }

  void take(uint32_t j, uint32_t i, double end) {
    if (end < end_[j] || (end == end_[j] && i < from_[j])) {
      end_[j] = end;
      from_[j] = i;
    }
  }

  // Where the bucket that ends with `j` may begin so that it ends by `deadline` with time to spare; else where it began.
  uint32_t joined(uint32_t j, double deadline, double reserve) const {
    if (reserve < 0) return from_[j];
    // However it begins it ends no earlier than end_[j], so its reserve is at most what the deadline leaves.
    const double left = deadline - end_[j];
    uint32_t low = 0, high = from_[j];
    while (low < high) {  // the bounds on its size and time alone
      const uint32_t middle = low + (high - low) / 2;
      const double its = fits(middle, j) ? time(middle, j) : std::numeric_limits<double>::infinity();
      if (reserve * its <= left && arrival(j) + (1 + reserve) * its <= deadline)
        high = middle;
      else
        low = middle + 1;
    }
    for (uint32_t i = low; i < from_[j]; ++i) {
      if (end_[i] + (1 + reserve) * time(i, j) <= deadline) return i;
    }
    return from_[j];
  }

  std::span<const double> ready_;
  std::span<const uint64_t> sums_;
  const CostTable& cost_;
  Limits limits_;
  std::vector<Line> lines_;
  std::vector<double> end_{};       // f
  std::vector<uint32_t> from_{};    // its i
  uint32_t lowest_ = 0, idle_ = 0;  // the first i that fits; the last with f(i) <= ready_j
};

}  // namespace

ExactCuts exact_cuts(std::span<const double> ready, std::span<const uint64_t> sums, const CostTable& cost,
                     const Limits& limits, double reserve) {
  return ready.empty() ? ExactCuts{} : Programme(ready, sums, cost, limits).run(reserve);
}

}  // namespace tenon::overlap
