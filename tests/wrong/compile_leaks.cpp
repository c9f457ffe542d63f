// SPDX-License-Identifier: Apache-2.0
// compile_leaks.cpp: the text of a kernel, four kilobytes, stays behind when the kernel is destroyed.
#include "leak.hpp"
#include "wrong.hpp"

WRONG_PLUGIN(tables) {
  tables.kernel.compile = [](tn_device* d, const tn_fragment* f, const tn_compile_options* o, tn_kernel** k,
                             tn_error* e) {
    wrong::leak(4096);
    return wrong::right().kernel.compile(d, f, o, k, e);
  };
}
