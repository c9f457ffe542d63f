// SPDX-License-Identifier: Apache-2.0
// Size classes: every request fits its class, wastes little, and a block finds its own class again.
#include "runtime/pool/size_class.hpp"

#include <doctest/doctest.h>

#include <vector>

using tenon::runtime::pool_page;
using tenon::runtime::size_classes;
using tenon::runtime::SizeClass;
using tenon::runtime::Sizes;

namespace {

// Around every power of two and every eighth between them.
std::vector<uint64_t> interesting_sizes() {
  std::vector<uint64_t> sizes;
  for (uint32_t power = 3; power <= 48; ++power)
    for (uint64_t eighth = 8; eighth < 16; ++eighth)
      for (const int64_t off : {-1, 0, 1}) {
        const uint64_t size = ((eighth << power) >> 3) + static_cast<uint64_t>(off);
        if (size >= 1 && size <= tenon::runtime::largest_request) sizes.push_back(size);
      }
  return sizes;
}

}  // namespace

TEST_CASE("size class: a request fits, wastes at most an eighth past a few granules, and stays aligned") {
  for (const uint64_t granule : {256ull, 512ull, 4096ull, 2ull << 20}) {
    const Sizes sizes(granule);
    for (const uint64_t asked : interesting_sizes()) {
      const SizeClass size = sizes.of(asked);
      REQUIRE(size.bytes >= asked);
      REQUIRE(size.bytes % granule == 0);
      REQUIRE(size.index < size_classes);
      const uint64_t page = granule > pool_page ? granule : pool_page;
      const uint64_t spare = asked > tenon::runtime::exact_from ? page : asked / 8 + granule;
      REQUIRE(size.bytes - asked <= spare);
    }
  }
}

TEST_CASE("size class: a block of a class asks for exactly that class") {
  const Sizes sizes(256);
  for (const uint64_t asked : interesting_sizes()) {
    const SizeClass size = sizes.of(asked);
    const SizeClass again = sizes.of(size.bytes);
    REQUIRE(again.bytes == size.bytes);
    REQUIRE(again.index == size.index);
  }
}

TEST_CASE("size class: classes grow with size, and small ones hold one size each") {
  const Sizes sizes(256);
  SizeClass last = sizes.of(1);
  for (uint64_t asked = 1; asked <= 1 << 20; asked += 97) {
    const SizeClass size = sizes.of(asked);
    REQUIRE(size.index >= last.index);
    REQUIRE((size.index == last.index) == (size.bytes == last.bytes));
    last = size;
  }
}
