// SPDX-License-Identifier: Apache-2.0
// compile_prints.cpp: each compilation reports to standard output.
#include "wrong.hpp"

#include <cstdio>

WRONG_PLUGIN(tables) {
  tables.kernel.compile = [](tn_device* d, const tn_fragment* f, const tn_compile_options* o, tn_kernel** k,
                             tn_error* e) {
    std::puts("compiling");
    return wrong::right().kernel.compile(d, f, o, k, e);
  };
}
