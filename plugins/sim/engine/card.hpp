// SPDX-License-Identifier: Apache-2.0
// card.hpp: one simulated device: its memory, its fate, and the trouble that was ordered for it.
//
// All handles that opened one ordinal share its card; it ends with the last of them.
// Invariant: counts of trouble begin at 1 and each happens once; the same calls with the same seed meet it at the same
// place.
#pragma once

#include "arena.hpp"
#include "profile.hpp"

#include <tenon/device.h>

#include <atomic>
#include <random>
#include <span>

namespace tenon::sim {

class Card {
 public:
  // [any-thread; may block; may fail]
  static Result<std::shared_ptr<Card>> make(const Profile& profile, uint32_t ordinal);

  const Profile& profile() const noexcept { return profile_; }
  uint32_t ordinal() const noexcept { return ordinal_; }
  Arena& arena() noexcept { return *arena_; }

  // TN_DEVICE_LOST once the device is gone. [any-thread; does not block; may fail]
  Status alive() const;
  bool lost() const noexcept { return lost_.load(std::memory_order_relaxed); }
  // TN_NO_MEMORY when this allocation was chosen to fail.
  Status before_alloc(uint64_t bytes);
  // Counts a command that runs now: may take its time, may lose the device. [scheduler's thread]
  Status before_command();
  // Counts a launch that has run: may turn a bit of its first output over. [scheduler's thread]
  void after_launch(std::span<std::byte> output);
  // Takes as long as the link needs for `bytes`. [scheduler's thread; blocks]
  void travel(uint64_t bytes) const;

  std::atomic<uint32_t> records{0};  // recorded and not reached, over all streams

 private:
  Card(const Profile& profile, uint32_t ordinal, std::unique_ptr<Arena> arena);

  Profile profile_;
  uint32_t ordinal_;
  std::unique_ptr<Arena> arena_;
  std::atomic<bool> lost_{false};
  std::atomic<uint64_t> allocs_{0};
  uint64_t commands_ = 0, launches_ = 0;  // the scheduler's
  std::mt19937_64 random_;                // the scheduler's
};

}  // namespace tenon::sim
