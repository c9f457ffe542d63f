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
#include <utility>

namespace tenon::sim {

class Card {
 public:
  // [any-thread; may block; may fail]
  static Result<std::shared_ptr<Card>> make(const Profile& profile, uint32_t ordinal);

  const Profile& profile() const noexcept { return profile_; }
  uint32_t ordinal() const noexcept { return ordinal_; }
  Arena& arena() noexcept { return *arena_; }

  // What every native call asks first: TN_DEVICE_LOST once the device is gone; where contexts belong to threads,
  // TN_INTERNAL on a thread that is not bound to this device: then this plugin has forgotten to. [any-thread; may fail]
  Status alive() const;
  bool lost() const noexcept { return lost_.load(std::memory_order_relaxed); }
  // TN_NO_MEMORY when this allocation was chosen to fail.
  Status before_alloc(uint64_t bytes);
  // Counts a command that runs now: may take its time, may lose the device. [scheduler's thread]
  Status before_command();
  // Counts a launch that has run: may turn a bit of its first output over. [scheduler's thread]
  void after_launch(std::span<std::byte> output);
  // Takes as long as the link needs for `bytes`; a time too short to be waited for is waited for with those to come.
  // [scheduler's thread; blocks]
  void travel(uint64_t bytes);

  std::atomic<uint32_t> records{0};  // recorded and not reached, over all streams

 private:
  Card(const Profile& profile, uint32_t ordinal, std::unique_ptr<Arena> arena);

  Profile profile_;
  uint32_t ordinal_;
  std::unique_ptr<Arena> arena_;
  std::atomic<bool> lost_{false};
  std::atomic<uint64_t> allocs_{0};
  uint64_t commands_ = 0, launches_ = 0;  // the scheduler's
  uint64_t owed_ns_ = 0;                  // the scheduler's: travelled and not waited for
  std::mt19937_64 random_;                // the scheduler's
};

// Binds the calling thread to a card, as runtimes with a current device ask for, and gives back what was bound before.
// No caller of the plugin ever sees a current device: whoever comes near the card binds first.
class Bound {
 public:
  explicit Bound(const Card& card) noexcept : before_(std::exchange(current_, &card)) {}
  Bound(const Bound&) = delete;
  Bound& operator=(const Bound&) = delete;
  ~Bound() { current_ = before_; }
  static bool to(const Card& card) noexcept { return current_ == &card; }

 private:
  static inline thread_local const Card* current_ = nullptr;
  const Card* before_;
};

}  // namespace tenon::sim
