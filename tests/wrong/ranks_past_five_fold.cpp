// SPDX-License-Identifier: Apache-2.0
// ranks_past_five_fold.cpp: of a tensor's dims the last five count, and no others.
#include "honest_kernel.hpp"
#include "wrong.hpp"

WRONG_PLUGIN(tables) {
  honest::arithmetic().place = [](uint32_t rank, const int64_t* dims, const int64_t* strides,
                                  uint64_t index) {
    int64_t out = 0;
    for (uint32_t i = rank; i > 0 && rank - i < 5; --i) {
      const auto dim = static_cast<uint64_t>(dims[i - 1]);
      out += static_cast<int64_t>(index % dim) * strides[i - 1];
      index /= dim;
    }
    return out;
  };
}
