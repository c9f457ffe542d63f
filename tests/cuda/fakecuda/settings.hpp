// SPDX-License-Identifier: Apache-2.0
// settings.hpp: what the environment variable FAKECUDA (or fakecuda_configure) asks of the test driver.
//
// Invariant: a key that is not known here is an error, so a misspelt wish never passes for a granted one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace fakecuda {

struct Settings {
  std::optional<uint64_t> seed{};  // the adversary's; none: free-running workers
  uint64_t devices = 2;
  uint64_t sm = 90;              // compute capability, major * 10 + minor
  uint64_t driver = 13000;       // what cuDriverGetVersion says
  uint64_t memory = 2ull << 30;  // bytes of each device
  uint64_t oom_after = 0;        // counted from 1; 0: never
  uint64_t launch_error_at = 0;
  uint64_t launch_refused_at = 0;
  uint64_t drop_wait = 0;
  uint64_t drop_value = 0;
  uint64_t slow_ns = 0;     // taken by every piece of work before it has an effect
  uint64_t idle_ms = 20;    // with a seed: how long no call is made before work runs that nobody asked for
  bool stub = false;        // the library of the toolkit's stubs folder
  bool no_peers = false;    // no device reaches another's memory
  bool no_exports = false;  // no device gives its memory to other processes
  bool check = false;       // names what was left over when the process ends
};

// "seed=7,check" → settings; nothing, with the reason in `error`, when a key or a value is not understood.
std::optional<Settings> parse_settings(std::string_view text, std::string& error);

}  // namespace fakecuda
