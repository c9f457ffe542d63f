// SPDX-License-Identifier: Apache-2.0
// tiles.hpp: whether products of bf16 can be computed on tile registers here, as Linux tells it.
//
// Invariant: the plugin is not asked for its tiles, so one that does not see them is not excused.
#pragma once

#include "harness.hpp"

#include <fstream>

namespace cpu_test {

inline bool processor_has_tiles() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("flags")) return line.find(" amx_bf16") != std::string::npos;
  }
  return false;
}

// Why a test of them cannot run, or nullptr.
inline const char* why_no_tiles() {
  if (!processor_has_tiles()) return "this processor has no tiles of bf16";
  const Device device = open_device();
  FragmentBuilder f;
  const std::vector<int64_t> dims = {2, 2};
  const uint32_t a = f.input(TN_DTYPE_bf16, dims), b = f.input(TN_DTYPE_bf16, dims);
  f.node(TN_OP_matmul, {a, b}, {f.output(TN_DTYPE_bf16, dims)})
      .integer("transpose_a", 0)
      .integer("transpose_b", 0);
  if (supports(device, f.fragment()).verdict == TN_SUPPORT_NO)
    return "this build has TENON_CPU_ONEDNN=OFF, as under TSan";
  return nullptr;
}

}  // namespace cpu_test
