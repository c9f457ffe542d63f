// SPDX-License-Identifier: Apache-2.0
// bits_waver.cpp: every second sum ends one place higher: right each time, and declared to repeat bit for bit.
#include "honest_kernel.hpp"
#include "wrong.hpp"

#include <atomic>
#include <cmath>

WRONG_PLUGIN(tables) {
  static auto* const right = honest::arithmetic().sum;
  honest::arithmetic().sum = [](const float* first, int64_t n, int64_t step) {
    static std::atomic<unsigned> sums{0};
    const float total = right(first, n, step);
    return std::isfinite(total) && sums++ % 2 == 1 ? std::nextafter(total, INFINITY) : total;
  };
}
