// SPDX-License-Identifier: Apache-2.0
// race.hpp: which settings to take, of those that can be compared two at a time.
//
// Each is compared alone with none. Those that win are taken in the order of what they win, each if it wins beside those
// already taken, too.
// Invariant: the first that is taken won most alone, and every other made it faster still.
#pragma once

#include <tenon/tune.hpp>

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace tenon::train {

struct Setting {
  std::string option, value;
  std::string words() const { return option + " = " + value; }
};
using Settings = std::vector<Setting>;

// A round is one step of each, one after the other.
struct Rounds {
  std::vector<double> without{}, with{};  // in ms, as many
  std::string why_not{};                  // it cannot be
};
using Compare = std::function<Result<Rounds>(const Settings& without, const Settings& with)>;

struct Race {
  Settings taken{};
  std::vector<Tuned::Trial> trials{};
  double before_ms = 0, after_ms = 0;
};

// Failures of `compare`. [one thread; blocks as compare; may fail]
Result<Race> race(std::span<const Setting> settings, const Compare& compare);

}  // namespace tenon::train
