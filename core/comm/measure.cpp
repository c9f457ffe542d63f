// SPDX-License-Identifier: Apache-2.0
// measure.cpp: see measure.hpp.
#include "comm/measure.hpp"

#include "base/clock.hpp"

#include <tenon/buffer.hpp>
#include <tenon/device.hpp>

#include <algorithm>

namespace tenon::comm {
namespace {

// The quickest of so many is told: small ones cost little, and one that was disturbed would tilt the line through it.
int rounds_of(uint64_t size) noexcept { return size <= uint64_t{512} << 10 ? 8 : 3; }

// From a latency's size up to `largest`.
std::vector<uint64_t> sizes_up_to(uint64_t largest) {
  std::vector<uint64_t> sizes{1u << 10};
  for (const uint64_t size : {uint64_t{32} << 10, uint64_t{512} << 10, largest / 4 * 4})
    if (size > sizes.back() && size <= largest) sizes.push_back(size);
  if (sizes.size() == 1) sizes.push_back(2 * sizes.back());
  return sizes;
}

// One all-reduce from a common start, in ns.
Result<uint64_t> timed(detail::CommState& whole, Stream& stream, const CommOp& op, Route route) {
  const CommOp barrier = CommOp::barrier();
  TN_TRY(whole.submit(stream, std::span(&barrier, 1), Route::flat));
  TN_TRY(stream.sync());
  const uint64_t start = base::now_ns();
  TN_TRY(whole.submit(stream, std::span(&op, 1), route));
  TN_TRY(stream.sync());
  return base::now_ns() - start;
}

}  // namespace

Result<std::vector<CommTarget::Measured>> measure(detail::CommState& whole, const std::vector<Route>& routes,
                                                  uint64_t largest) {
  Device device(whole.device);
  Stream stream = TN_TRY(device.stream({.name = "measuring '" + whole.options.name + "'"}));
  const std::vector<uint64_t> sizes = sizes_up_to(largest);
  const Buffer data = TN_TRY(device.allocate(stream, sizes.back()));
  TN_TRY(stream.fill(data));
  const DType dtype = whole.options.deterministic ? i32 : f32;  // what may go there
  std::vector<float> best;
  for (const Route route : routes) {
    for (const uint64_t size : sizes) {
      const tn_span part = TN_TRY(data.slice(0, size));
      const CommOp op = CommOp::all_reduce(part, part, dtype, Reduction::max);
      uint64_t least = UINT64_MAX;
      for (int round = 0; round < rounds_of(size); ++round)
        least = std::min(least, TN_TRY(timed(whole, stream, op, route)));
      best.push_back(static_cast<float>(least));
    }
  }
  const Buffer shared = TN_TRY(device.allocate(stream, best.size() * sizeof(float)));
  TN_TRY(stream.upload(shared, best));
  const CommOp slowest = CommOp::all_reduce(shared, shared, f32, Reduction::max);
  TN_TRY(whole.submit(stream, std::span(&slowest, 1), Route::flat));
  TN_TRY(stream.download(best, shared));
  TN_TRY(stream.sync());
  std::vector<CommTarget::Measured> costs;
  for (size_t r = 0; r < routes.size(); ++r) {
    std::vector<CostTable::Point> points;
    for (size_t i = 0; i < sizes.size(); ++i) points.push_back({sizes[i], best[r * sizes.size() + i]});
    CostTable cost = TN_TRY(CostTable::measured(std::move(points)));
    costs.push_back({routes[r], std::move(cost)});
  }
  return costs;
}

}  // namespace tenon::comm
