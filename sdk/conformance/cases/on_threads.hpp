// SPDX-License-Identifier: Apache-2.0
// on_threads.hpp: a case's work on several threads at once.
//
// Invariant: no thread outlives the call, and whatever one fails with is the case's failure.
#pragma once

#include "conformance/context.hpp"

#include <thread>
#include <vector>

namespace tenon::conform {

inline constexpr int thread_count = 8;

// Runs `body(index)` on several threads and passes their failures on to the case.
template <class Body>
void on_threads(Context& t, int count, Body&& body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      try {
        const Status said = body(i);
        t.check(said.ok(), "thread ", i, ": ", said.message());
      } catch (const std::exception& escaped) {
        t.fail(words("thread ", i, ": ", escaped.what()));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace tenon::conform
