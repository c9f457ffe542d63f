// SPDX-License-Identifier: Apache-2.0
// detection.hpp: how long ranks that are threads take to be told of a fault.
//
// Invariant: the time of a fault is that at which the last rank was told.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdio>

namespace comm_test {

class Detection {
 public:
  // What goes wrong does so now. [any-thread; does not block; cannot fail]
  void begin() { begun_ = Clock::now(); }
  // One rank has been told. [any-thread; does not block; cannot fail]
  void told() {
    const double seconds = std::chrono::duration<double>(Clock::now() - begun_.load()).count();
    for (double known = last_; seconds > known && !last_.compare_exchange_weak(known, seconds);) continue;
  }
  double seconds() const { return last_.load(); }
  void print(const char* fault) const {
    std::printf("%s told to the last rank in %.3f s\n", fault, seconds());
  }

 private:
  using Clock = std::chrono::steady_clock;
  std::atomic<Clock::time_point> begun_{Clock::now()};
  std::atomic<double> last_{0};
};

}  // namespace comm_test
