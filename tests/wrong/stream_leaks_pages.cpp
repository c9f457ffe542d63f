// SPDX-License-Identifier: Apache-2.0
// stream_leaks_pages.cpp: each stream has two pages from the kernel, and keeps them when it is destroyed.
#include "leak.hpp"
#include "wrong.hpp"

#include <sys/mman.h>

WRONG_PLUGIN(tables) {
  tables.stream.create = [](tn_device* d, const tn_stream_options* o, tn_stream** s, tn_error* e) {
    auto* const pages =
        static_cast<char*>(mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (pages != MAP_FAILED) {
      pages[4096] = 1;
      wrong::keep(pages);
    }
    return wrong::right().stream.create(d, o, s, e);
  };
}
