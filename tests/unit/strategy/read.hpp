// SPDX-License-Identifier: Apache-2.0
// read.hpp: strategies from text for tests, and one option of what they come to.
#pragma once

#include <tenon/strategy.hpp>

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <utility>

namespace tenon::test {

inline Strategy read(std::string_view text) {
  auto strategy = Strategy::parse(text, "s.toml");
  REQUIRE_MESSAGE(strategy.ok(), strategy.message());
  return std::move(strategy).take();
}

inline Strategy preset(std::string_view name) {
  auto strategy = Strategy::preset(name);
  REQUIRE_MESSAGE(strategy.ok(), strategy.message());
  return std::move(strategy).take();
}

inline void refuses(std::string_view text, const char* words) {
  const auto strategy = Strategy::parse(text, "s.toml");
  REQUIRE_FALSE(strategy.ok());
  CHECK(strategy.code() == TN_INVALID);
  CHECK_MESSAGE(std::string(strategy.message()).find(words) != std::string::npos, strategy.message());
}

inline Strategy::Effective effective(const Strategy& strategy, std::string_view option) {
  for (Strategy::Effective& row : strategy.effective()) {
    if (row.option == option) return std::move(row);
  }
  FAIL("there is no option " << option);
  return {};
}

}  // namespace tenon::test
