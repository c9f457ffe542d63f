// SPDX-License-Identifier: Apache-2.0
// machine.hpp: what this machine is, as far as it explains what plugins do on it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tenon::tool {

struct Machine {
  std::string host{};              // its name
  std::string system{};            // "Linux 6.1.0 x86_64"
  std::string cpu{};               // "Intel(R) Xeon(R) …"; empty when unknown
  std::vector<std::string> isa{};  // of the extensions that matter to kernels: "avx2", "avx512f", "sve"
  uint32_t cores_usable = 0;       // by this process's affinity
  uint32_t cores_online = 0;
  uint64_t memory_bytes = 0, memory_available_bytes = 0;
  uint32_t numa_nodes = 0;
};

// Reads it from the operating system; what it does not tell stays empty. [any-thread; may block; cannot fail]
Machine this_machine();
// The variables that change what Tenon, its plugins or their libraries do, set ones only, sorted.
// [one thread; does not block; cannot fail]
std::vector<std::pair<std::string, std::string>> environment_that_matters();

}  // namespace tenon::tool
