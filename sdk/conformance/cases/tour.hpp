// SPDX-License-Identifier: Apache-2.0
// tour.hpp: the shortest use of a plugin that touches every part of level 0: what a case runs when it asks "does it
// still work?"; and a second handle to take the tour with.
#pragma once

#include "conformance/objects.hpp"

namespace tenon::conform {

// Opens the device, sends bytes there and back, fills, records, waits, and ends everything. [case's thread; may fail]
Status tour(Context& t);
// The same on a device that is open. [one thread; may fail]
Status tour(Context& t, const Device& device);
// Another handle of the device under test, beside the one that is open; leaves the case as unsupported ("device.shared")
// where a device is exclusive, which `open` says by TN_BUSY. [case's thread; may fail]
Result<std::unique_ptr<Device>> second_handle(Context& t);

}  // namespace tenon::conform
