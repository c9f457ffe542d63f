// SPDX-License-Identifier: Apache-2.0
// The generator gives the numbers that its authors published, and nothing about it depends on who asks first.
#include "loader/philox.hpp"

#include <doctest/doctest.h>

using namespace tenon::loader;

TEST_CASE("philox: gives the known answers of its authors") {
  CHECK(philox(0, 0, 0) == Draws{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox(UINT64_MAX, UINT64_MAX, UINT64_MAX) == Draws{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox(0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e) ==
        Draws{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("philox: purposes, seeds and both halves of the counter give other draws") {
  const Draws one = philox(key_of(1, Purpose::order), 2, 3);
  CHECK(one != philox(key_of(1, Purpose::image), 2, 3));
  CHECK(one != philox(key_of(2, Purpose::order), 2, 3));
  CHECK(one != philox(key_of(1, Purpose::order), 3, 3));
  CHECK(one != philox(key_of(1, Purpose::order), 2, 4));
}

TEST_CASE("philox: below gives every number and none beyond") {
  CHECK(below(9, 0) == 0);
  CHECK(below(9, UINT32_MAX) == 8);
  CHECK(below(1, UINT32_MAX) == 0);
  CHECK(below(2, 0x7FFFFFFF) == 0);
  CHECK(below(2, 0x80000000) == 1);
}
