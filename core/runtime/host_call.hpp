// SPDX-License-Identifier: Apache-2.0
// host_call.hpp: the host's functions that run in stream order.
//
// Invariant: the stream's thread alone links and frees records; whoever runs one only marks it as done. What an abandoned
// stream never ran is found on its list. A record is used again, so a steady state allocates none.
#pragma once

#include "runtime/timeline.hpp"

#include <atomic>
#include <functional>

namespace tenon::runtime {

// One cache line, since it travels to the worker and back.
struct alignas(64) HostCall {
  std::function<void()> call;
  Timeline* line = nullptr;
  HostCall* next = nullptr;  // the one enqueued after
  std::atomic<bool> done{false};
};

// Whether this thread is in a call that `line` waits for: it must not wait for `line` in turn.
// [any-thread; does not block; cannot fail]
bool is_in_call_of(const Timeline& line) noexcept;

// Drops the calls that will never run, once the plugin's stream is gone. [one thread; does not block; cannot fail]
void drop_calls(Timeline& line) noexcept;

}  // namespace tenon::runtime
