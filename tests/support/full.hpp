// SPDX-License-Identifier: Apache-2.0
// How often a randomised or repeated test runs: a short count by default, the full one when TENON_TEST_FULL
// is set (./dev test --full).
// Invariant: the count used is printed, so that a log says which of the two it shows.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace tenon::test {

// True under ./dev test --full. [any-thread]
inline bool full_run() {
  const char* value = std::getenv("TENON_TEST_FULL");
  return value != nullptr && std::string_view(value) == "1";
}

// The count to use, printed with `what`: full_or("operations", 20'000, 1'000'000). [any-thread]
template <typename Count>
Count full_or(const char* what, Count short_count, Count full_count) {
  const Count count = full_run() ? full_count : short_count;
  std::printf("%s: %lld (%s run)\n", what, static_cast<long long>(count), full_run() ? "full" : "short");
  return count;
}

#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
inline constexpr bool under_tsan = true;
#else
inline constexpr bool under_tsan = false;
#endif

// The same where what is counted are numbers: under ThreadSanitizer, which looks at threads and takes twenty times as long, always the
// short count. [any-thread]
template <typename Count>
Count full_numbers_or(const char* what, Count short_count, Count full_count) {
  return full_or(what, short_count, under_tsan ? short_count : full_count);
}

}  // namespace tenon::test
