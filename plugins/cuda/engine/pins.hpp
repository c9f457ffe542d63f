// SPDX-License-Identifier: Apache-2.0
// pins.hpp: page-locked blocks of the host that are used again instead of being given back, for as long as ranks are joined.
//
// A driver that gives such memory back waits for all streams. While ranks share this process one of those may wait for the very
// rank whose thread gives it back: for the words of a part of a communicator, say, whose last rank goes.
// Invariant: without ranks nothing is kept; a block belongs to who asked for it, to this, or to the driver.
#pragma once

#include "../driver.hpp"

#include <map>
#include <mutex>

namespace tenon::cuda {

class Pins {
 public:
  explicit Pins(const Driver& driver) : driver_(driver) {}
  Pins(const Pins&) = delete;
  Pins& operator=(const Pins&) = delete;

  // A kept block of that many bytes; nullptr: there is none. [any-thread; does not block; cannot fail]
  void* again(uint64_t bytes) noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = kept_.find(bytes);
    if (found == kept_.end()) return nullptr;
    void* const out = found->second;
    kept_.erase(found);
    return out;
  }
  // Ends a block of cuMemHostAlloc's. The context is current. [any-thread; may block; cannot fail]
  void end(void* block, uint64_t bytes) {
    {
      const std::lock_guard lock(mutex_);
      if (ranks_ > 0) {
        kept_.emplace(bytes, block);
        return;
      }
    }
    driver_.cuMemFreeHost(block);
  }

  // [any-thread; does not block; cannot fail]
  void rank_joins() noexcept {
    const std::lock_guard lock(mutex_);
    ++ranks_;
  }
  // With the last one all that was kept goes. The context is current. [any-thread; may block; cannot fail]
  void rank_leaves() {
    std::multimap<uint64_t, void*> over;
    {
      const std::lock_guard lock(mutex_);
      if (--ranks_ == 0) over.swap(kept_);
    }
    for (const auto& [bytes, block] : over) driver_.cuMemFreeHost(block);
  }

 private:
  const Driver& driver_;
  std::mutex mutex_{};  // of what follows
  size_t ranks_ = 0;
  std::multimap<uint64_t, void*> kept_{};  // by size
};

}  // namespace tenon::cuda
