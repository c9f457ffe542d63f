// SPDX-License-Identifier: Apache-2.0
// bridge.hpp: waits between streams that their plugins cannot connect: another plugin, or another device of one that
// lacks CROSS_DEVICE_WAIT.
//
// Invariant: every promise made is signalled once, in order, also when the awaited stream fails; so nothing hangs.
#pragma once

#include "runtime/timeline.hpp"

namespace tenon::runtime {

// Later work on `line` starts after `source` reaches `value`. Where the plugin has no promises the host blocks here.
// [stream's thread; does not block where the plugin has promises; may fail]
Status bridge(Timeline& line, Timeline& source, uint64_t value);

// Drops what is pending for `line`, which ends; true when a promise was left unkept.
// [one thread; may block; cannot fail]
bool forget_bridges(Timeline& line) noexcept;

}  // namespace tenon::runtime
