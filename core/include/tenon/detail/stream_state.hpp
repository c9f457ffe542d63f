// SPDX-License-Identifier: Apache-2.0
// stream_state.hpp: what the inline hot path of a stream needs to see; the rest of its state is core/runtime's.
//
// Invariant: `reached` never decreases and never exceeds what the plugin reached *and* what is known to be sound, so a
// point at or below it can be trusted without asking. The tables are complete: a function the plugin lacks is replaced
// by one that says TN_UNSUPPORTED, so no call tests for null.
#pragma once

#include <tenon/kernel.h>
#include <tenon/detail/ref.hpp>
#include <tenon/export.hpp>
#include <tenon/result.hpp>

namespace tenon::detail {

struct StreamState : Counted {
  const tn_stream_api* api = nullptr;
  tn_stream* handle = nullptr;
  const tn_device* home = nullptr;      // whose kernels run on it
  std::atomic<uint64_t> reached{0};     // the newest value known to be reached
  std::atomic<uint64_t> recorded{0};    // the newest value recorded; written by the stream's thread
  std::atomic<uint32_t> unrecorded{0};  // 1: work was enqueued after `recorded`
  std::atomic<uint32_t> poisoned{0};    // 1: the stream, or one it waited for, failed
  uint32_t shared = 0;                  // 1: others enqueue behind our back, so `unrecorded` never falls

  // Every call that enqueues says so here; the pool reads it when memory changes streams. [stream's thread]
  void touch() noexcept { unrecorded.store(1, std::memory_order_relaxed); }
  // Notes a recorded value. Whoever reads `unrecorded` first and `recorded` second errs to the safe side.
  // [stream's thread]
  void note(uint64_t value) noexcept {
    recorded.store(value, std::memory_order_release);
    unrecorded.store(shared, std::memory_order_release);
  }
  bool healthy() const noexcept { return poisoned.load(std::memory_order_relaxed) == 0; }

  TN_API static void destroy(StreamState* state) noexcept;  // defined in core/runtime
};

// The poison of `state`, which is not healthy. Off the hot path.
TN_API Status stream_poison(const StreamState& state);
// The failure of a call on `state`, remembered as its poison when it is one. Off the hot path.
TN_API Status stream_failure(StreamState& state, int32_t code, const tn_error& error);
// Why a kernel of another device than the stream's is not launched on it. Off the hot path.
TN_API Status stream_elsewhere(const StreamState& state);
// Waits for a value that is not known to be reached: asks, bridges devices, carries poison.
TN_API Status stream_wait(StreamState& state, StreamState& other, uint64_t value);

}  // namespace tenon::detail
