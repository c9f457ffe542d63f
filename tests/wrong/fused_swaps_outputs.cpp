// SPDX-License-Identifier: Apache-2.0
// fused_swaps_outputs.cpp: of several outputs the first two arrive in each other's place.
#include "wrong.hpp"

WRONG_PLUGIN(tables) {
  tables.kernel.compile = [](tn_device* d, const tn_fragment* f, const tn_compile_options* o, tn_kernel** out,
                             tn_error* e) {
    if (f == nullptr || f->output_count != 2) return wrong::right().kernel.compile(d, f, o, out, e);
    const uint32_t outputs[] = {f->outputs[1], f->outputs[0]};
    tn_fragment turned = *f;
    turned.outputs = outputs;
    return wrong::right().kernel.compile(d, &turned, o, out, e);
  };
}
