// SPDX-License-Identifier: Apache-2.0
// Seeds of randomised tests.
// Invariant: the seed in use is printed together with the line that repeats the run.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>

namespace tenon::test {

// The seed of this run: TENON_TEST_SEED when set, `fallback` otherwise. A fixed fallback keeps a short run
// repeatable; full runs vary it by adding the round's number. [any-thread]
inline std::uint64_t seed(std::uint64_t fallback = 20'240'229) {
  const char* text = std::getenv("TENON_TEST_SEED");
  const std::uint64_t value = text != nullptr ? std::strtoull(text, nullptr, 0) : fallback;
  std::printf("seed: %llu (repeat with TENON_TEST_SEED=%llu)\n", static_cast<unsigned long long>(value),
              static_cast<unsigned long long>(value));
  return value;
}

// A generator started from seed(). [any-thread]
inline std::mt19937_64 generator(std::uint64_t fallback = 20'240'229) {
  return std::mt19937_64(seed(fallback));
}

}  // namespace tenon::test
