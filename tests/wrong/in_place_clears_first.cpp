// SPDX-License-Identifier: Apache-2.0
// in_place_clears_first.cpp: a kernel clears its output before it reads its inputs, and claims to work in place.
#include "honest_kernel.hpp"
#include "wrong.hpp"

WRONG_PLUGIN(tables) {
  honest::arithmetic().prepare = [](float* output, uint64_t n) {
    for (uint64_t i = 0; i < n; ++i) output[i] = 0;
  };
}
