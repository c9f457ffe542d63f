// SPDX-License-Identifier: Apache-2.0
// leak.hpp: memory that is taken and never given back.
//
// Invariant: what leaks here stays reachable, as a list that a plugin forgets to shorten is: no leak checker sees it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace wrong {

struct Kept {
  Kept* before;
};

// Puts `block` before all that was kept.
inline void keep(void* block) {
  static std::atomic<Kept*> newest{nullptr};
  if (block == nullptr) return;
  Kept* const kept = new (block) Kept{newest.load()};
  while (!newest.compare_exchange_weak(kept->before, kept)) continue;
}

// Takes `bytes` of the heap for good.
inline void leak(size_t bytes) { keep(std::malloc(bytes)); }

}  // namespace wrong
