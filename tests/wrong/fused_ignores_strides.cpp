// SPDX-License-Identifier: Apache-2.0
// fused_ignores_strides.cpp: among other nodes a strided tensor is read and written as if it were dense; alone it is right.
#include "honest_kernel.hpp"
#include "wrong.hpp"

WRONG_PLUGIN(tables) {
  honest::fused_arithmetic().place = [](uint32_t rank, const int64_t* dims, const int64_t* strides,
                                        uint64_t index) {
    int64_t offset = 0, dense = 1;
    for (uint32_t i = rank; i-- > 0; index /= static_cast<uint64_t>(dims[i])) {
      offset += strides[i] != 0 ? static_cast<int64_t>(index % static_cast<uint64_t>(dims[i])) * dense : 0;
      dense *= strides[i] != 0 ? dims[i] : 1;
    }
    return offset;
  };
}
