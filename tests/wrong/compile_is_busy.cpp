// SPDX-License-Identifier: Apache-2.0
// compile_is_busy.cpp: a compile while another runs is TN_BUSY.
#include "wrong.hpp"

#include <atomic>
#include <cstring>
#include <thread>

static std::atomic<int> compiling{0};

WRONG_PLUGIN(tables) {
  tables.kernel.compile = [](tn_device* d, const tn_fragment* f, const tn_compile_options* options,
                             tn_kernel** k, tn_error* e) {
    int32_t code = TN_BUSY;
    if (compiling++ == 0) {
      for (int i = 0; i < 2000 && compiling == 1; ++i) std::this_thread::yield();
      code = wrong::right().kernel.compile(d, f, options, k, e);
    } else if (e != nullptr) {
      e->code = TN_BUSY;
      std::strcpy(e->domain, "honest");
      std::strcpy(e->message, "another thread compiles: wait for it");
    }
    --compiling;
    return code;
  };
}
