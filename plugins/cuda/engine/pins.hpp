// SPDX-License-Identifier: Apache-2.0
// pins.hpp: page-locked blocks of the host that are kept instead of being given back, for as long as ranks are joined.
//
// A driver that gives such memory back waits for all streams. While ranks share this process one of those may wait for the very
// rank whose thread gives it back: for the words of a part of a communicator, say, whose last rank goes.
// Invariant: without ranks nothing is kept. Only a block that nothing on its way uses is handed out again; the others are kept up to
// a bound, beyond which giving back waits after all.
#pragma once

#include "../driver.hpp"

#include <algorithm>
#include <mutex>
#include <new>
#include <vector>

namespace tenon::cuda {

class Pins {
 public:
  static constexpr uint64_t most_idle_bytes = 256 << 20;  // of what is not handed out again

  explicit Pins(const Driver& driver) : driver_(driver) {}
  Pins(const Pins&) = delete;
  Pins& operator=(const Pins&) = delete;

  // A kept block of that many bytes that nothing uses; nullptr: there is none. [any-thread; does not block; cannot fail]
  void* again(uint64_t bytes) noexcept {
    const std::lock_guard lock(mutex_);
    const auto found =
        std::ranges::find_if(kept_, [&](const Kept& one) { return one.unused && one.bytes == bytes; });
    if (found == kept_.end()) return nullptr;
    void* const out = found->block;
    *found = kept_.back();
    kept_.pop_back();
    return out;
  }
  // Ends a block of cuMemHostAlloc's. `unused`: nothing on its way uses it. The context is current.
  // [any-thread; may block; cannot fail]
  void end(void* block, uint64_t bytes, bool unused) noexcept {
    if (!keep({block, bytes, unused})) driver_.cuMemFreeHost(block);
  }
  // Gives back all that is kept; whether there was any. The context is current. [any-thread; may block; cannot fail]
  bool release() noexcept {
    std::vector<Kept> over;
    {
      const std::lock_guard lock(mutex_);
      over.swap(kept_);
      idle_bytes_ = 0;
    }
    for (const Kept& one : over) driver_.cuMemFreeHost(one.block);
    return !over.empty();
  }

  // [any-thread; does not block; cannot fail]
  void rank_joins() noexcept {
    const std::lock_guard lock(mutex_);
    ++ranks_;
  }
  // With the last one all that was kept goes. The context is current. [any-thread; may block; cannot fail]
  void rank_leaves() noexcept {
    {
      const std::lock_guard lock(mutex_);
      if (--ranks_ > 0) return;
    }
    release();
  }

 private:
  struct Kept {
    void* block;
    uint64_t bytes;
    bool unused;
  };

  bool keep(const Kept& one) noexcept {
    const std::lock_guard lock(mutex_);
    if (ranks_ == 0 || (!one.unused && idle_bytes_ + one.bytes > most_idle_bytes)) return false;
    try {
      kept_.push_back(one);
    } catch (const std::bad_alloc&) {
      return false;
    }
    if (!one.unused) idle_bytes_ += one.bytes;
    return true;
  }

  const Driver& driver_;
  std::mutex mutex_{};  // of what follows
  size_t ranks_ = 0;
  uint64_t idle_bytes_ = 0;
  std::vector<Kept> kept_{};
};

}  // namespace tenon::cuda
