// SPDX-License-Identifier: Apache-2.0
// idle.hpp: how long a thread of this plugin spins before it sleeps.
//
// Spinning makes a wake cost 0.3 µs instead of 2, and is a loss as soon as it takes a processor from someone who works.
// Invariant: at most one thread per processor spins at a time, counted over the whole plugin, and a spinner offers its
// processor to others every 10 µs, so that a neighbour it does not know of costs that much and not the whole spin.
#pragma once

#include "../driver.hpp"

namespace tenon::cpu {

// 20,000 turns bridge gaps of 100 µs and more between two pieces of work; 2,000 turns did not.
inline constexpr uint32_t spin_turns = 20'000;
// Turns before a spinner counts itself and asks whether there is room for it: most waits are shorter.
inline constexpr uint32_t uncounted_turns = 64;

// Turns between two offers; the offer itself takes 0.2 µs.
inline constexpr uint32_t yield_turns = 1024;

// Who wants to spin: a worker leaves the last processor to those who feed it.
enum class Spinner { Worker, Caller };

// Counts one long spin.
class SpinSeat {
 public:
  explicit SpinSeat(Spinner who) noexcept {
    const unsigned processors = processors_.load(std::memory_order_relaxed);
    const unsigned seats = who == Spinner::Worker && processors > 0 ? processors - 1 : processors;
    const bool alone = processors < 2;
    granted_ = taken_.fetch_add(1, std::memory_order_relaxed) < seats && !alone;
  }
  SpinSeat(const SpinSeat&) = delete;
  SpinSeat& operator=(const SpinSeat&) = delete;
  ~SpinSeat() { taken_.fetch_sub(1, std::memory_order_relaxed); }

  bool granted() const noexcept { return granted_; }

  // Looks at the affinity, which decides, not the machine's size. Call when a device opens.
  // [any-thread; does not block; cannot fail]
  static void look_at_affinity() noexcept {
    processors_.store(driver::affinity_count(), std::memory_order_relaxed);
  }

 private:
  static inline std::atomic<unsigned> processors_{1};
  static inline std::atomic<unsigned> taken_{0};
  bool granted_ = false;
};

// Spins until `done()`, for as long as it pays. True when done. [any-thread; does not block; cannot fail]
template <class Done>
bool spin_until(Spinner who, Done&& done) noexcept {
  for (uint32_t i = 0; i < uncounted_turns; ++i) {
    if (done()) return true;
    driver::pause();
  }
  const SpinSeat seat(who);
  if (!seat.granted()) return done();
  for (uint32_t i = uncounted_turns; i < spin_turns; ++i) {
    if (done()) return true;
    if (i % yield_turns == 0) {
      driver::yield();
    } else {
      driver::pause();
    }
  }
  return done();
}

}  // namespace tenon::cpu
