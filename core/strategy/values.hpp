// SPDX-License-Identifier: Apache-2.0
// values.hpp: one value of each type that an option may have, from TOML and to it.
//
// `read` sets the member and gives "", or leaves it and tells what the value must be. `word` writes what `read` takes.
#pragma once

#include "base/toml.hpp"

#include <tenon/strategy.hpp>

#include <string>

namespace tenon::strategy {

struct Range {
  double low = 0, high = 0;
};

std::string read(const toml::node& value, bool& into, Range range);
std::string read(const toml::node& value, uint32_t& into, Range range);
std::string read(const toml::node& value, double& into, Range range);
std::string read(const toml::node& value, std::string& into, Range range);
std::string read(const toml::node& value, Strategy::AutoBool& into, Range range);
std::string read(const toml::node& value, Strategy::AutoCount& into, Range range);
std::string read(const toml::node& value, Strategy::Names& into, Range range);
std::string read(const toml::node& value, Strategy::Groups& into, Range range);
std::string read(const toml::node& value, Strategy::Level& into, Range range);
std::string read(const toml::node& value, DType& into, Range range);
std::string read(const toml::node& value, BucketRule& into, Range range);

std::string word(bool value);
std::string word(uint32_t value);
std::string word(double value);
std::string word(const std::string& value);
std::string word(const Strategy::AutoBool& value);
std::string word(const Strategy::AutoCount& value);
std::string word(const Strategy::Names& value);
std::string word(const Strategy::Groups& value);
std::string word(Strategy::Level value);
std::string word(DType value);
std::string word(BucketRule value);

}  // namespace tenon::strategy
