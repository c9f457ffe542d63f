// SPDX-License-Identifier: Apache-2.0
// stream.hpp: Stream, a timeline of work.
//
// This one completes everything inside the call, which a device without queues may do (feature SYNCHRONOUS).
// YOURS: with a queue of your device, `copy` and `fill` enqueue; `record` enqueues an event or a semaphore's
// next value; `completed` asks how far it has come; `wait` makes this queue wait for the other's value;
// `sync` blocks the caller. Optional methods worth having then: host_call, timestamp, promise and signal (see
// tenon/stream.h).
// Invariant: values never decrease, and every value returned by `record` is reached.
#pragma once

#include <tenon/author/plugin.hpp>

#include <atomic>

namespace plugin {

class Stream {
 public:
  tenon::Status copy(const tn_span& dst, const tn_span& src);
  tenon::Status fill(const tn_span& dst, uint64_t pattern, uint32_t pattern_bytes);

  tenon::Result<uint64_t> record(uint32_t flags);
  tenon::Status wait(Stream& other, uint64_t value);
  tenon::Result<uint64_t> completed();
  tenon::Status sync(uint64_t value, uint64_t timeout_ns);

  // The last call before destruction: complete the work, or abandon it (TN_DESTROY_…).
  tenon::Status finish(uint32_t mode);

 private:
  std::atomic<uint64_t> value_{0};  // any thread may ask, one thread records
};

}  // namespace plugin
