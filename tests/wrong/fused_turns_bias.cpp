// SPDX-License-Identifier: Apache-2.0
// fused_turns_bias.cpp: among other nodes a row that is repeated is repeated as a column.
#include "honest_kernel.hpp"
#include "wrong.hpp"

WRONG_PLUGIN(tables) {
  static auto* const right = honest::arithmetic().place;
  honest::fused_arithmetic().place = [](uint32_t rank, const int64_t* dims, const int64_t* strides,
                                        uint64_t index) {
    const bool row = rank == 2 && strides[0] == 0 && strides[1] == 1 && dims[1] > 1;
    if (!row) return right(rank, dims, strides, index);
    return static_cast<int64_t>(index) / dims[1] % dims[1];
  };
}
