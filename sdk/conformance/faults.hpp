// SPDX-License-Identifier: Apache-2.0
// faults.hpp: trouble that a vendor lets the kit order: `[faults]` of capabilities.toml.
//
//   [faults]
//   lost = "lost_at=4"         # with the option lost_at=4 the device is lost at its fourth command
//   no_memory = "oom_at=3"     # with oom_at=3 the third allocation, and no other, is TN_NO_MEMORY
//
// Invariant: a fault is an option of the plugin and nothing else, so a case that orders one needs a process of its own.
#pragma once

#include <tenon/result.hpp>

#include <map>
#include <string>
#include <string_view>

namespace tenon::conform {

// "lost_at=4" is {"lost_at", "4"}.
struct Fault {
  std::string option{}, value{};
  bool operator==(const Fault&) const = default;
};
using Faults = std::map<std::string, Fault>;  // "lost" →

// Adds one line of the table. TN_INVALID, with `where`, for a fault that the kit does not know and for a text that is no
// KEY=VALUE. [any-thread; does not block; may fail]
Status add_fault(Faults& faults, const std::string& where, std::string_view name, std::string_view order);

}  // namespace tenon::conform
