// SPDX-License-Identifier: Apache-2.0
// world.hpp: the simulated device, which in these tests does nothing before it has to.
#pragma once

#include "support/world.hpp"

namespace sim_test {

using namespace tenon::test;

class World : public PluginWorld {
 public:
  // Work runs only when it is demanded, unless `options` say otherwise.
  explicit World(Options options) : PluginWorld("sim", lazy(std::move(options))) {}

 private:
  static Options lazy(Options options) {
    options.try_emplace("idle_ms", "3600000");
    return options;
  }
};

}  // namespace sim_test
