// SPDX-License-Identifier: Apache-2.0
// library.cpp: work of a library's stand-in, as a kernel of which only its effect is known.
//
// Invariant: it is counted among the launches, so a setting that refuses or breaks the N-th launch means it too.
#include "library.hpp"

#include "timeline.hpp"

#include <memory>
#include <vector>

using namespace fakecuda;

namespace {

bool reaches(const Memory& memory, const std::vector<Range>& ranges, int device) {
  try {
    for (const Range& range : ranges) memory.check_device_access(range.at, range.bytes, device);
    return true;
  } catch (const Refused&) {
    return false;
  }
}

}  // namespace

extern "C" __attribute__((visibility("default"))) CUresult fakecuda_enqueue(
    CUstream handle, const Range* ranges, size_t count, const std::function<void()>* run) {
  return call_in_context([&](Driver& d, Lock&, Context& context) {
    Stream& stream = stream_of(d, context, handle);
    const std::vector<Range> all(ranges, ranges + count);
    require(reaches(d.memory, all, context.device), CUDA_ERROR_INVALID_VALUE);
    const uint64_t number = ++d.counts.launches;
    require(number != d.settings.launch_refused_at, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    const bool faults = number == d.settings.launch_error_at;
    const auto work = [faults, what = *run, health = context.health] {
      if (faults)
        health->fail(CUDA_ERROR_ILLEGAL_ADDRESS);
      else
        what();
    };
    const auto there = [&memory = d.memory, all, device = context.device] {
      return reaches(memory, all, device);
    };
    enqueue(d, stream, {.kind = Kind::kernel, .run = work, .there = there});
  });
}
