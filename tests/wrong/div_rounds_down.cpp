// SPDX-License-Identifier: Apache-2.0
// div_rounds_down.cpp: a negative quotient of integers is rounded down, not toward zero.
#include "honest_kernel.hpp"
#include "wrong.hpp"

WRONG_PLUGIN(tables) {
  honest::arithmetic().divide = [](int32_t a, int32_t b) {
    if (b == 0) return 0;
    const int64_t x = a, y = b, down = x / y - (x % y != 0 && (x < 0) != (y < 0) ? 1 : 0);
    return static_cast<int32_t>(down);
  };
}
