// SPDX-License-Identifier: Apache-2.0
// ABI versions, ranges, and what a refusal says.
#include "plugin/versions.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace tenon::plugin;

namespace {

AbiRange range(uint16_t low_major, uint16_t low_minor, uint16_t high_major, uint16_t high_minor) {
  return {{low_major, low_minor}, {high_major, high_minor}};
}

std::string refusal(const AbiRange& needs, const AbiRange& host) {
  return std::string(check_ranges("plugin 'foo'", needs, host).message());
}

}  // namespace

TEST_CASE("versions: text and numbers agree") {
  CHECK(to_text(AbiVersion{1, 12}) == "1.12");
  CHECK(to_text(range(1, 0, 1, 0)) == "1.0");
  CHECK(to_text(range(1, 0, 2, 3)) == "1.0 to 2.3");
  CHECK(abi_version_from("1.12") == AbiVersion{1, 12});
  CHECK(abi_version_from("2") == AbiVersion{2, 0});
  for (const char* text : {"", ".", "1.", ".1", "1.x", "-1.0", "1.0.0", " 1.0", "99999.0", "1,0"}) {
    CAPTURE(text);
    CHECK_FALSE(abi_version_from(text).has_value());
  }
}

TEST_CASE("versions: ranges meet when they share a version") {
  CHECK(range(1, 0, 1, 0).meets(range(1, 0, 1, 0)));
  CHECK(range(1, 0, 1, 4).meets(range(1, 4, 2, 0)));
  CHECK_FALSE(range(1, 0, 1, 4).meets(range(1, 5, 2, 0)));
  CHECK(range(1, 0, 2, 0).contains({1, 99}));
  CHECK_FALSE(range(1, 2, 2, 0).contains({1, 1}));
}

TEST_CASE("versions: a refusal names both sides and who has to move") {
  CHECK(refusal(range(1, 0, 1, 9), range(1, 0, 1, 0)) == "");
  CHECK(refusal(range(2, 0, 2, 0), range(1, 0, 1, 0)) ==
        "plugin 'foo' needs ABI 2.0, this host offers 1.0: update Tenon, or rebuild the plugin against sdk "
        "1.x");
  CHECK(refusal(range(1, 0, 1, 3), range(2, 0, 2, 1)) ==
        "plugin 'foo' needs ABI 1.0 to 1.3, this host offers 2.0 to 2.1: rebuild the plugin against sdk 2.x");
}

TEST_CASE("versions: a host's range is what it says") {
  tn_host host{};
  host.header.major = 2, host.header.minor = 7, host.min_major = 1, host.min_minor = 3;
  CHECK(to_text(range_of(host)) == "1.3 to 2.7");
}
