// SPDX-License-Identifier: Apache-2.0
// figures.hpp: the two figures of a device that decide whether fusing pays: what a launch takes, how fast bytes move.
#pragma once

#include <tenon/device.hpp>

namespace tenon::plan_room {

struct Figures {
  double launch_ns = 0;
  double bytes_per_ns = 0;  // read and written
};

// As the device publishes them; what it does not is measured, once in the life of the process for each device.
// [any-thread; may block; may fail]
Result<Figures> figures_of(Device& device);

}  // namespace tenon::plan_room
