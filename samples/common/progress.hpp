// SPDX-License-Identifier: Apache-2.0
// progress.hpp: a bar of the steps that are done, where somebody is looking.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>

#include <unistd.h>

namespace sample {

// Nothing where standard error is no terminal. [one thread; does not block; cannot fail]
inline void show_progress(uint64_t done, uint64_t all) {
  if (isatty(STDERR_FILENO) == 0) return;
  std::string bar(40, '.');
  std::fill_n(bar.begin(), 40 * done / all, '#');
  std::fprintf(stderr, "\r[%s] %llu of %llu%s", bar.c_str(), static_cast<unsigned long long>(done),
               static_cast<unsigned long long>(all), done == all ? "\n" : "");
}

}  // namespace sample
