// SPDX-License-Identifier: Apache-2.0
// The numbers of a case: repeatable, different between seeds, cases and rounds.
#include "conformance/random.hpp"

#include <doctest/doctest.h>

#include <array>

using tenon::conform::Random;

TEST_CASE("random: equal seeds draw equal numbers, on every machine") {
  Random a = Random::of(1, "copy: a", 0), b = Random::of(1, "copy: a", 0);
  for (int i = 0; i < 100; ++i) CHECK(a.next() == b.next());
  CHECK(a.drawn() == b.drawn());
  CHECK(Random(0).next() == 0xe220a8397b1dcdaf);  // splitmix64's published first value
}

TEST_CASE("random: seed, case and round each make other numbers") {
  const auto first = [](uint64_t seed, const char* name, uint64_t round) {
    return Random::of(seed, name, round).next();
  };
  const uint64_t base = first(1, "copy: a", 0);
  CHECK(first(2, "copy: a", 0) != base);
  CHECK(first(1, "copy: b", 0) != base);
  CHECK(first(1, "copy: a", 1) != base);
}

TEST_CASE("random: bounds are kept, both ends are met") {
  Random random(5);
  bool low = false, high = false;
  for (int i = 0; i < 1000; ++i) {
    const uint64_t value = random.between(3, 6);
    CHECK(value >= 3);
    CHECK(value <= 6);
    low = low || value == 3;
    high = high || value == 6;
  }
  CHECK(low);
  CHECK(high);
}

TEST_CASE("random: drawn tells how much was drawn") {
  Random a(1), b(1);
  a.next();
  b.next();
  b.next();
  CHECK(a.drawn() != b.drawn());
  std::array<std::byte, 5> bytes{};
  Random(1).fill(bytes);
  CHECK(bytes[0] != bytes[4]);
}
