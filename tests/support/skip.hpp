// SPDX-License-Identifier: Apache-2.0
// TENON_SKIP: leaves a test whose precondition is missing, visibly.
// Invariant: a skip prints "SKIPPED: <topic>: <reason>" and makes the program end with status 77, which ctest
// counts as skipped; with the topic named in TENON_REQUIRE (a comma-separated list, or "all") it is a failure.
#pragma once

#include <doctest/doctest.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace tenon::test {

inline constexpr int skip_status = 77;

// How many skips this program has reported. [any-thread]
inline std::atomic<int>& skips() {
  static std::atomic<int> count{0};
  return count;
}

// True when TENON_REQUIRE names `topic`. [any-thread]
inline bool required(std::string_view topic) {
  const char* value = std::getenv("TENON_REQUIRE");
  std::string_view rest = value != nullptr ? value : "";
  while (!rest.empty()) {
    const auto comma = rest.find(',');
    const auto name = rest.substr(0, comma);
    if (name == topic || name == "all") return true;
    rest = comma == std::string_view::npos ? std::string_view{} : rest.substr(comma + 1);
  }
  return false;
}

// Reports the skip, as a failure when `topic` is required. [test thread]
inline void report_skip(std::string_view topic, std::string_view reason) {
  const std::string line = std::string(topic) + ": " + std::string(reason);
  if (required(topic)) {
    FAIL_CHECK("required by TENON_REQUIRE but missing: " << line);
    return;
  }
  ++skips();
  std::printf("SKIPPED: %s\n", line.c_str());
  std::fflush(stdout);
}

}  // namespace tenon::test

// TENON_SKIP("avx512", "this machine has no AVX-512") returns from the test case.
#define TENON_SKIP(topic, reason)              \
  do {                                         \
    ::tenon::test::report_skip(topic, reason); \
    return;                                    \
  } while (false)
