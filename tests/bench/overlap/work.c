/* SPDX-License-Identifier: Apache-2.0 */
/* work.c: a library of its own, because torch's ranks call it, too. */
#include "work.h"

uint64_t tenon_bench_work(uint64_t turns) {
  uint64_t x = turns;
  for (uint64_t i = 0; i < turns; ++i) {
    x = x * 6364136223846793005ull + 1442695040888963407ull;
    __asm__ volatile("" : "+r"(x));
  }
  return x;
}
