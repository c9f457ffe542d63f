// SPDX-License-Identifier: Apache-2.0
// replay.hpp: makes the calls of a recording (layer "record") again, on any plugin, and says where the outcome differs.
//
// Invariant: a recording is data, never trusted: what is damaged, cut off or foreign is refused with the reason before any
// call is made, and no call names bytes outside a memory.
#pragma once

#include <tenon/plugin.h>
#include <tenon/export.hpp>
#include <tenon/result.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

struct ReplayOptions {
  std::optional<uint32_t> device{};  // for every recorded device; else its own number, modulo what there is
  bool accept_truncated = false;  // replay what there is of a recording without an end (its program crashed)
  std::chrono::seconds patience{60};                              // for one value to be reached
  std::function<void(uint64_t step, uint64_t steps)> progress{};  // called now and then
};

// One step whose outcome is not the recorded one.
struct ReplayDifference {
  uint64_t step = 0;  // from 1, as damaged steps are named
  std::string what;   // "copy: 4096 downloaded bytes differ: recorded 9f86d0…, now 60303a…"
};

struct ReplayReport {
  std::string recorded_on;  // "cpu 0.1.0"
  uint64_t steps = 0;       // in the recording
  uint64_t calls = 0;       // made again
  uint64_t skipped = 0;     // could not be made; `notes` says why
  uint64_t downloads = 0;   // compared
  uint64_t differences = 0;
  std::optional<ReplayDifference> first{};
  std::vector<std::string> notes{};  // each reason once
  double seconds = 0;

  bool same() const noexcept { return differences == 0; }
};

// Replays `file` on `plugin`, a descriptor with complete tables (Runtime::plugin). Everything that was opened is closed at
// the end. TN_NOT_FOUND for the file; TN_INVALID with the reason for a foreign, damaged or truncated one; TN_VERSION; a
// difference is no failure. [any-thread; blocks; may fail]
TN_API Result<ReplayReport> replay(const std::string& file, const tn_plugin& plugin,
                                   const ReplayOptions& options = {});

}  // namespace tenon
