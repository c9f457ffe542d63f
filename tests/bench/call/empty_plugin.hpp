// SPDX-License-Identifier: Apache-2.0
// empty_plugin.hpp: a plugin whose calls do next to nothing, so that what is measured is the way to them.
//
// Invariant: its functions live in a file of their own, so no caller sees their bodies.
#pragma once

#include "plugin/tables.hpp"

#include <tenon/device.hpp>

#include <memory>

namespace bench {

struct EmptyPlugin {
  EmptyPlugin();
  std::unique_ptr<tenon::plugin::Tables> tables;
  tenon::Device device;
};

}  // namespace bench
