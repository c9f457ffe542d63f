// SPDX-License-Identifier: Apache-2.0
// access.hpp: who set what in a strategy, and the environment as a value.
//
// Invariant: an option without a mark has its default, unless code has set it since.
#pragma once

#include "base/environment.hpp"
#include "strategy/options.hpp"

#include <tenon/strategy.hpp>

#include <string>

namespace tenon {

struct Strategy::Access {
  // Notes that `by` has set `option` to what it is. [one thread; does not block; cannot fail]
  static void mark(Strategy& strategy, const strategy::Option& option, std::string by);
  // Who set it last: "default", a mark's word, or "code" when the value is no longer the mark's.
  // [any-thread; does not block; cannot fail]
  static std::string who(const Strategy& strategy, const strategy::Option& option);
  // Take_environment with an environment of the caller's. [one thread; does not block; may fail]
  static Status take(Strategy& strategy, const base::Environment& environment);
  // Gives the preset's value to each option that nothing but a default or a preset has set. [one thread; does not block; may fail]
  static Status preset(Strategy& strategy, std::string_view name);
};

}  // namespace tenon
