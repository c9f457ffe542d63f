// SPDX-License-Identifier: Apache-2.0
// move.cpp: runs of elements, gathered where the source has gaps and scattered where the result has.
#include "move.hpp"

#include <algorithm>

namespace tenon::cpu {

namespace {

template <size_t width>
void run_of(std::byte* to, int64_t to_step, const std::byte* from, int64_t from_step, uint64_t n) {
  constexpr auto bytes = static_cast<int64_t>(width);
  if (to_step == 1 && from_step == 1) {
    std::memcpy(to, from, n * width);
  } else if (to_step == 1) {
    for (uint64_t i = 0; i < n; ++i, from += from_step * bytes) std::memcpy(to + i * width, from, width);
  } else {
    for (uint64_t i = 0; i < n; ++i, to += to_step * bytes, from += from_step * bytes)
      std::memcpy(to, from, width);
  }
}

class MoveStep final : public Step {
 public:
  MoveStep(const Place& from, const View& from_view, const Place& to, const View& to_view)
      : from_(from),
        to_(to),
        from_view_(from_view),
        to_view_(to_view),
        move_(move_run(to_view.element_bytes())) {}

  std::string engine() const override { return "move"; }

  Status run(const Run& run) const override {
    const std::byte* const from = run.at(from_);
    std::byte* const to = run.at(to_);
    run.team.run(to_view_.count(), parallel_grain, [&](uint64_t begin, uint64_t end) {
      if (to_view_.contiguous())
        gather(from, begin, end - begin, to + begin * width());
      else if (from_view_.contiguous())
        scatter(from + begin * width(), begin, end - begin, to);
      else
        both(from, to, begin, end);
    });
    return {};
  }

 private:
  static constexpr uint64_t tile = 1024;

  uint64_t width() const noexcept { return to_view_.element_bytes(); }

  void gather(const std::byte* from, uint64_t begin, uint64_t n, std::byte* dense) const noexcept {
    from_view_.for_runs(begin, n, [&](int64_t offset, uint64_t length, int64_t step) {
      move_(dense, 1, from + offset * static_cast<int64_t>(width()), step, length);
      dense += length * width();
    });
  }
  void scatter(const std::byte* dense, uint64_t begin, uint64_t n, std::byte* to) const noexcept {
    to_view_.for_runs(begin, n, [&](int64_t offset, uint64_t length, int64_t step) {
      move_(to + offset * static_cast<int64_t>(width()), step, dense, 1, length);
      dense += length * width();
    });
  }
  void both(const std::byte* from, std::byte* to, uint64_t begin, uint64_t end) const noexcept {
    alignas(64) std::byte dense[tile * 8];
    for (; begin < end; begin += tile) {
      const uint64_t n = std::min(tile, end - begin);
      gather(from, begin, n, dense);
      scatter(dense, begin, n, to);
    }
  }

  Place from_, to_;
  View from_view_, to_view_;
  MoveRun move_;
};

}  // namespace

MoveRun move_run(uint32_t element_bytes) noexcept {
  switch (element_bytes) {
    case 1:
      return run_of<1>;
    case 2:
      return run_of<2>;
    case 4:
      return run_of<4>;
    default:
      return run_of<8>;
  }
}

std::unique_ptr<Step> move_step(const Place& from, const View& from_view, const Place& to,
                                const View& to_view) {
  return std::make_unique<MoveStep>(from, from_view, to, to_view);
}

}  // namespace tenon::cpu
