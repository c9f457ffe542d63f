// SPDX-License-Identifier: Apache-2.0
// options.hpp: the rows of strategy.def as data: what an option is called, and how its value is read and written.
//
// Invariant: what `word` writes `read` takes, and gives the same value.
#pragma once

#include <tenon/strategy.hpp>

#include "base/toml.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::strategy {

enum class Reader : uint8_t {
  fusion,
  pattern,
  passes,
  overlap,
  sync,
  training,
  executor,
  tune,
  runtime,
  nobody,
  fixed
};

struct Option {
  std::string_view section, name;
  std::string_view aliases;    // separated by spaces
  std::string_view documents;  // "": not theirs
  double low = 0, high = 0;
  Reader reader = Reader::nobody;
  std::string_view detail;
  // Sets the member; what the value must be when it is not, and then nothing is set.
  std::string (*read)(Strategy& into, const toml::node& value, const Option& option);
  std::string (*word)(const Strategy& of);  // as in a file
};

// [any-thread; does not block; cannot fail]
std::span<const Option> options() noexcept;
// The option called `name`, or one of its aliases; null when there is none. [any-thread; does not block; cannot fail]
const Option* find(std::string_view name);
// Every name and alias. [any-thread; does not block; cannot fail]
std::vector<std::string_view> all_names();
// The words of a list with spaces. [any-thread; does not block; cannot fail]
std::vector<std::string_view> words(std::string_view list);
// Sets the option from a word as people write it: TOML, or the same without its quotes and brackets, or 1, 0, True, False.
// What it must be when it is not. [one thread; does not block; cannot fail]
std::string read_word(Strategy& into, const Option& option, std::string_view word);

}  // namespace tenon::strategy
