// SPDX-License-Identifier: Apache-2.0
// writes_past_output.cpp: a kernel writes one element more than its output has.
#include "honest_kernel.hpp"
#include "wrong.hpp"

WRONG_PLUGIN(tables) {
  honest::arithmetic().prepare = [](float* output, uint64_t n) {
    if (n != 0) output[n] = 1;
  };
}
