// SPDX-License-Identifier: Apache-2.0
// figures.cpp: published figures, or a few milliseconds of copies and fills.
#include "plan/figures.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>

namespace tenon::plan_room {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t largest_copy = 32 << 20;
constexpr int rounds = 5, commands = 64;

double ns_since(Clock::time_point start) {
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
}

// The best of a few copies within the device.
Result<double> measure_bytes_per_ns(Device& device, Stream& stream) {
  const uint64_t limit = device.limits().max_alloc_bytes;
  const uint64_t bytes = limit == 0 ? largest_copy : std::min(largest_copy, limit / 4);
  const Buffer from = TN_TRY(device.allocate(stream, bytes))
  , to = TN_TRY(device.allocate(stream, bytes));
  TN_TRY(stream.fill(from.span()));
  TN_TRY(stream.copy(to, from));
  TN_TRY(stream.sync());
  double best = 0;
  for (int i = 0; i < rounds; ++i) {
    const auto start = Clock::now();
    TN_TRY(stream.copy(to, from));
    TN_TRY(stream.sync());
    best = std::max(best, 2 * static_cast<double>(bytes) / ns_since(start));
  }
  return best;
}

// What one more small command adds to a stream.
Result<double> measure_launch_ns(Device& device, Stream& stream) {
  const Buffer small = TN_TRY(device.allocate(stream, 256));
  TN_TRY(stream.fill(small.span()));
  TN_TRY(stream.sync());
  double best = 1e9;
  for (int i = 0; i < rounds; ++i) {
    const auto start = Clock::now();
    for (int k = 0; k < commands; ++k) TN_TRY(stream.fill(small.span()));
    TN_TRY(stream.sync());
    best = std::min(best, ns_since(start) / commands);
  }
  return best;
}

Result<Figures> measure(Device& device) {
  Figures figures{.launch_ns = device.limits().launch_ns,
                  .bytes_per_ns = 2 * device.limits().copy_bytes_per_second / 1e9};
  if (figures.launch_ns > 0 && figures.bytes_per_ns > 0) return figures;
  Stream stream = TN_TRY(device.stream({.name = "figures"}));
  if (figures.bytes_per_ns <= 0) figures.bytes_per_ns = TN_TRY(measure_bytes_per_ns(device, stream));
  if (figures.launch_ns <= 0) figures.launch_ns = TN_TRY(measure_launch_ns(device, stream));
  return figures;
}

}  // namespace

Result<Figures> figures_of(Device& device) {
  static std::mutex mutex;
  static std::map<std::string, Figures>& known = *new std::map<std::string, Figures>;
  const std::string key = device.name() + "/" + device.info().id;
  const std::lock_guard lock(mutex);
  if (const auto found = known.find(key); found != known.end()) return found->second;
  return known.emplace(key, TN_TRY(measure(device))).first->second;
}

}  // namespace tenon::plan_room
