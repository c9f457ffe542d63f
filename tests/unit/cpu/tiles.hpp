// SPDX-License-Identifier: Apache-2.0
// tiles.hpp: whether products of bf16 can be computed on tile registers here, as Linux tells it.
//
// Invariant: the plugin is not asked for its tiles, so one that does not see them is not excused.
#pragma once

#include "onednn.hpp"

#include <fstream>

namespace cpu_test {

inline bool processor_has_tiles() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const auto has = [&](const char* flag) { return line.find(flag) != std::string::npos; };
    if (line.starts_with("flags")) return has(" amx_bf16") && has(" avx512_bf16");
  }
  return false;
}

// Why a test of them cannot run, or nullptr.
inline const char* why_no_tiles() {
  if (!processor_has_tiles()) return "this processor has no tiles of bf16";
  if (!has_onednn(open_device())) return no_onednn;
  return nullptr;
}

}  // namespace cpu_test
