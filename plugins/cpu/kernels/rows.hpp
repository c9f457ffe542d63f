// SPDX-License-Identifier: Apache-2.0
// rows.hpp: kernels that take one row at a time: layer norm, softmax, and what is made of them.
//
// A row is read into a lane's own room (or used where it lies), computed, and written from there. Lanes are cuts of the
// rows; what a kernel sums over rows it keeps for each lane, and joins in their order.
// Invariant: a row's result depends on that row alone; sums over rows are cut by the shape, never by threads.
#pragma once

#include "fused.hpp"

namespace tenon::cpu {

struct Rows {
  uint64_t rows = 0, length = 0;
  uint64_t lanes = 1;

  uint64_t first(uint64_t lane) const noexcept { return rows * lane / lanes; }
  // As many lanes as threads can use, or, where sums over rows need cuts that are always the same, by the work alone.
  static Rows by_threads(uint64_t rows, uint64_t length, unsigned threads);
  static Rows by_work(uint64_t rows, uint64_t length);
};

// A step over rows: calls run_lane for each of its lanes.
class RowStep : public RangedStep {
 public:
  Status run(const Run& run) const override {
    run_lanes(run);
    return {};
  }
  // For kernels that sum nothing over rows.
  void run_rows(const Run& run, uint64_t first, uint64_t end) const override;

 protected:
  // Room for `buffers` rows of `class_bytes` an element in each lane.
  RowStep(Builder& builder, const Rows& shape, uint32_t buffers, uint32_t class_bytes);

  void run_lanes(const Run& run) const { run_rows(run, 0, shape_.rows); }
  // Rows [first, end); `lane` says whose room is used.
  virtual void run_lane(const Run& run, uint64_t lane, uint64_t first, uint64_t end) const = 0;

  const Rows& shape() const noexcept { return shape_; }
  std::byte* room(const Run& run, uint64_t lane, uint32_t buffer) const noexcept {
    return run.at(room_) + (lane * buffers_ + buffer) * row_bytes_;
  }

 private:
  Rows shape_;
  uint32_t buffers_;
  uint64_t row_bytes_;
  Place room_{};
};

// Asks for a row that is read next, so that memory has work while this row is computed from L1: for as much of it as a core has on
// its way at once, and for the rest as far as L2, which has more on its way. (Behind a row in a lane's room lies more of the room:
// nothing to gain, and little lost.) [any-thread; does not block; cannot fail]
inline void ask_for_row(const void* row, uint64_t bytes) noexcept {
  constexpr uint64_t line = 64, most = 24 * line;
  const auto* const first = static_cast<const std::byte*>(row);
  uint64_t at = 0;
  for (; at < std::min(bytes, most); at += line) __builtin_prefetch(first + at);
  for (; at < bytes; at += line) __builtin_prefetch(first + at, 0, 2);
}

// The dims of `rank` with `axis` last, and all others in order.
std::vector<uint32_t> order_with_last(uint32_t rank, uint32_t axis);

}  // namespace tenon::cpu
