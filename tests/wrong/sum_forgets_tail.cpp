// SPDX-License-Identifier: Apache-2.0
// sum_forgets_tail.cpp: a sum leaves out what does not fill a vector of eight.
#include "honest_kernel.hpp"
#include "wrong.hpp"

WRONG_PLUGIN(tables) {
  honest::arithmetic().sum = [](const float* first, int64_t n, int64_t step) {
    double total = 0;
    for (int64_t i = 0; i < (n > 8 ? n / 8 * 8 : n); ++i) total += static_cast<double>(first[i * step]);
    return static_cast<float>(total);
  };
}
