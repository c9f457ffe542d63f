// SPDX-License-Identifier: Apache-2.0
// layout_forgets_tiles.cpp: layout_bytes counts elements, and not the tiles that they are padded to.
#include "wrong_sim.hpp"

WRONG_SIM(tables) {
  tables.kernel.layout_bytes = [](tn_device* d, const tn_tensor* tensor, uint64_t* bytes, tn_error* e) {
    if (tensor == nullptr) return wrong::right().kernel.layout_bytes(d, tensor, bytes, e);
    tn_tensor dense = *tensor;
    if (dense.layout == 1) dense.layout = 0;
    return wrong::right().kernel.layout_bytes(d, &dense, bytes, e);
  };
}
