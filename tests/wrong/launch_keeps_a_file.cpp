// SPDX-License-Identifier: Apache-2.0
// launch_keeps_a_file.cpp: each launch opens a file, and none closes it.
#include "wrong.hpp"

#include <fcntl.h>

WRONG_PLUGIN(tables) {
  tables.kernel.launch = [](tn_kernel* k, tn_stream* s, const tn_span* bindings, uint32_t count,
                            const tn_span* workspace, tn_error* e) {
    static_cast<void>(open("/dev/null", O_RDONLY | O_CLOEXEC));
    return wrong::right().kernel.launch(k, s, bindings, count, workspace, e);
  };
}
