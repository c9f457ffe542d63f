// SPDX-License-Identifier: Apache-2.0
// open_files.hpp: whether something that was done many times has left files open.
//
// Invariant: what is opened once and kept is no leak; only what grows with the rounds is.
#pragma once

#include "conformance/context.hpp"

#include <algorithm>
#include <filesystem>
#include <iterator>

namespace tenon::conform {

// How many this process has open. [any-thread; does not block; may throw]
inline int64_t open_files() {
  const std::filesystem::directory_iterator open("/proc/self/fd");
  return std::distance(begin(open), end(open));
}

// Holds the count against what it was `rounds` rounds ago: half as many more as there were rounds are a leak.
// [case's thread; cannot fail]
inline void check_open_files(Context& t, int64_t before, int64_t rounds, const char* what) {
  const int64_t after = open_files();
  t.check(after - before < std::max<int64_t>(1, rounds / 2), "file descriptors went from ", before, " to ",
          after, " in ", rounds, " rounds of ", what, ": each leaves some open");
}

}  // namespace tenon::conform
