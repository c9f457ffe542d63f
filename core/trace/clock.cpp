// SPDX-License-Identifier: Apache-2.0
// clock.cpp: see clock.hpp.
#include "trace/clock.hpp"

#include "base/clock.hpp"
#include "base/file.hpp"
#include "base/text.hpp"

#include <chrono>

namespace tenon::trace {

Result<ClockPair> pair_clocks(Stream& stream) {
  constexpr int tries = 8;
  ClockPair best{.same = true};
  uint64_t least = UINT64_MAX;
  for (int i = 0; i < tries; ++i) {
    TN_TRY(stream.sync());  // idle: what is recorded next is reached as soon as it arrives
    const uint64_t before = base::now_ns();
    const Point point = TN_TRY(stream.record(Timed::yes));
    TN_TRY(point.sync());
    const uint64_t after = base::now_ns();
    const uint64_t time = TN_TRY(point.timestamp());
    best.same = best.same && time >= before && time <= after;
    if (after - before >= least) continue;
    least = after - before;
    best.device_ns = time;
    best.host_ns = before + least / 2;
  }
  return best;
}

int64_t host_time(uint64_t device_ns, const ClockPair& first, const ClockPair& last) noexcept {
  if (first.same && last.same) return static_cast<int64_t>(device_ns);
  const auto since = static_cast<double>(static_cast<int64_t>(device_ns - first.device_ns));
  const auto device_span = static_cast<double>(last.device_ns - first.device_ns);
  const auto host_span = static_cast<double>(last.host_ns - first.host_ns);
  const bool runs = last.device_ns > first.device_ns;
  return static_cast<int64_t>(first.host_ns) +
         static_cast<int64_t>(runs ? since * (host_span / device_span) : since);
}

std::string host_clock() {
  const auto boot = base::read_file("/proc/sys/kernel/random/boot_id", 4096);
  return boot.ok() ? std::string(base::trim(*boot)) : std::string("unknown");
}

int64_t utc_offset_ns() {
  const auto day = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(day).count() -
         static_cast<int64_t>(base::now_ns());
}

}  // namespace tenon::trace
