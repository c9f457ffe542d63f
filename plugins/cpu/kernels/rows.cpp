// SPDX-License-Identifier: Apache-2.0
// rows.cpp: lanes.
//
// Invariant: a lane's room is a whole number of cache lines.
#include "rows.hpp"

#include "past_cache.hpp"

#include <atomic>

namespace tenon::cpu {
namespace {

constexpr uint64_t most_lanes = 64;
constexpr uint64_t line_bytes = 64;

// Rows a multiple of a page apart would share the same few lines of a cache, and a load from one look like a store to another.
uint64_t apart(uint64_t lines) { return (lines + (lines % 64 == 0 ? 5 : 0)) * line_bytes; }

uint64_t worth(uint64_t rows, uint64_t length, uint64_t most) {
  return std::clamp<uint64_t>(rows * length / parallel_grain, 1, std::max<uint64_t>(1, std::min(most, rows)));
}

}  // namespace

Rows Rows::by_threads(uint64_t rows, uint64_t length, unsigned threads) {
  return {rows, length, worth(rows, length, threads)};
}

Rows Rows::by_work(uint64_t rows, uint64_t length) { return {rows, length, worth(rows, length, most_lanes)}; }

RowStep::RowStep(Builder& builder, const Rows& shape, uint32_t buffers, uint32_t class_bytes)
    : shape_(shape),
      buffers_(buffers),
      row_bytes_(apart((shape.length * class_bytes + line_bytes - 1) / line_bytes)) {
  room_ = builder.scratch(shape.lanes * buffers * row_bytes_);
}

void RowStep::run_rows(const Run& run, uint64_t first, uint64_t end) const {
  const Rows some{end - first, shape_.length, std::min(shape_.lanes, std::max<uint64_t>(1, end - first))};
  // A thread takes lane after lane: where there are many, it need not wait for one that memory serves worse.
  const uint64_t threads = std::min<uint64_t>(run.team.threads(), some.lanes);
  std::atomic<uint64_t> next{0};
  run.team.run(threads, 1, [&](uint64_t, uint64_t) {
    for (uint64_t lane; (lane = next.fetch_add(1, std::memory_order_relaxed)) < some.lanes;)
      run_lane(run, lane, first + some.first(lane), first + some.first(lane + 1));
    finish_past_cache();
  });
}

std::vector<uint32_t> order_with_last(uint32_t rank, uint32_t axis) {
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < rank; ++i) {
    if (i != axis) order.push_back(i);
  }
  order.push_back(axis);
  return order;
}

}  // namespace tenon::cpu
