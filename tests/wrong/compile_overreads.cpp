// SPDX-License-Identifier: Apache-2.0
// compile_overreads.cpp: compile reads whole options, whatever size the caller knows.
#include "wrong.hpp"

WRONG_PLUGIN(tables) {
  tables.kernel.compile = [](tn_device* d, const tn_fragment* f, const tn_compile_options* options,
                             tn_kernel** k, tn_error* e) {
    if (options == nullptr) return wrong::right().kernel.compile(d, f, options, k, e);
    tn_compile_options whole = *options;
    whole.size = sizeof whole;
    return wrong::right().kernel.compile(d, f, &whole, k, e);
  };
}
