// SPDX-License-Identifier: Apache-2.0
// strip_finish.hpp: what is computed on sums of f32 while they are in the first cache: bias, residual, activation.
//
// Invariant: a sum is rounded after each of the three, as separate nodes would round it.
#pragma once

#include <cstdint>

namespace tenon::cpu {

struct StripResult {
  float* at;
  int64_t row;  // from one row to the next, of the residual too
  int64_t rows, columns;
  const float* bias;      // for each column, or null
  const float* residual;  // or null
};

using StripFinish = void (*)(const StripResult& result);
// [any-thread; does not block; cannot fail]
StripFinish strip_finish(uint32_t activation, bool variant) noexcept;

}  // namespace tenon::cpu
