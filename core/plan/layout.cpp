// SPDX-License-Identifier: Apache-2.0
// layout.cpp: best fit over free gaps of a block that grows at its end.
#include "plan/layout.hpp"

#include <algorithm>
#include <map>
#include <queue>

namespace tenon::plan_room {
namespace {

// Gaps between places, joined where they touch. What lies past the last place is no gap.
class Gaps {
 public:
  uint64_t take(uint64_t bytes) {
    auto best = gaps_.end();
    for (auto gap = gaps_.begin(); gap != gaps_.end(); ++gap) {
      if (gap->second >= bytes && (best == gaps_.end() || gap->second < best->second)) best = gap;
    }
    if (best == gaps_.end()) return take_at_end(bytes);
    const auto [place, size] = *best;
    gaps_.erase(best);
    if (size > bytes) gaps_.emplace(place + bytes, size - bytes);
    return place;
  }

  void give(uint64_t place, uint64_t bytes) {
    if (bytes == 0) return;
    auto next = gaps_.lower_bound(place);
    if (next != gaps_.end() && place + bytes == next->first) {
      bytes += next->second;
      next = gaps_.erase(next);
    }
    if (next != gaps_.begin()) {
      const auto before = std::prev(next);
      if (before->first + before->second == place) {
        before->second += bytes;
        return;
      }
    }
    gaps_.emplace(place, bytes);
  }

  uint64_t end() const noexcept { return end_; }

 private:
  // A gap that reaches the end is made longer rather than left.
  uint64_t take_at_end(uint64_t bytes) {
    uint64_t place = end_;
    if (!gaps_.empty()) {
      const auto last = std::prev(gaps_.end());
      if (last->first + last->second == end_) {
        place = last->first;
        gaps_.erase(last);
      }
    }
    end_ = place + bytes;
    return place;
  }

  std::map<uint64_t, uint64_t> gaps_{};  // place → bytes
  uint64_t end_ = 0;
};

}  // namespace

Layout lay_out(std::span<const Life> lives, uint64_t alignment) {
  Layout out;
  Gaps gaps;
  using Ending = std::pair<uint32_t, size_t>;
  std::priority_queue<Ending, std::vector<Ending>, std::greater<>> endings;
  const auto rounded = [&](uint64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; };
  for (size_t i = 0; i < lives.size(); ++i) {
    // What a launch reads is free for what the next one writes, not for what it writes itself.
    for (; !endings.empty() && endings.top().first < lives[i].from; endings.pop()) {
      const size_t over = endings.top().second;
      gaps.give(out.places[over], rounded(lives[over].bytes));
    }
    const uint64_t bytes = rounded(lives[i].bytes);
    out.places.push_back(bytes == 0 ? 0 : gaps.take(bytes));
    out.bytes_without_reuse += bytes;
    endings.emplace(std::max(lives[i].from, lives[i].to), i);
  }
  out.bytes = gaps.end();
  return out;
}

}  // namespace tenon::plan_room
