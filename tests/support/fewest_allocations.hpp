// SPDX-License-Identifier: Apache-2.0
// fewest_allocations.hpp: whether a step that is done over and over allocates.
#pragma once

#include "support/counted_new.hpp"

#include <tenon/stream.hpp>

#include <algorithm>

namespace tenon::test {

// The fewest allocations of this thread that 50 steps make, of three times: where a device falls further behind than ever, what
// is on its way may need more room once.
template <class Step>
Result<uint64_t> fewest_allocations(Stream& stream, const Step& step) {
  uint64_t out = UINT64_MAX;
  for (int time = 0; time < 3; ++time) {
    const uint64_t before = own_allocations;
    for (int i = 0; i < 50; ++i) TN_TRY(step());
    out = std::min(out, own_allocations - before);
    TN_TRY(stream.sync());
  }
  return out;
}

}  // namespace tenon::test
