// SPDX-License-Identifier: Apache-2.0
// launch.hpp: how a kernel compiled for the host is described, and what it is given when it runs.
//
// The shim (cuda_on_host.hpp) declares the same structures in its own words, since it includes nothing.
// Invariant: `version` changes with every change of a layout here, and what was compiled against another is refused.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fakecuda {

inline constexpr uint32_t entry_version = 1;
inline constexpr const char* entry_prefix = "fakecuda_entry_";

struct Dim3 {
  unsigned x = 1, y = 1, z = 1;
};

// What a kernel's thread sees of itself.
struct Thread {
  Dim3 thread_index{0, 0, 0}, block_index{0, 0, 0}, block_size{}, grid_size{};
};

// What a kernel may ask of whoever runs it.
struct Services {
  // Returns when every thread of the block that has not ended is here.
  void (*barrier)();
  // Returns when every lane of `mask` is here; `in` of lane i is what lanes find in out[i]. `what` is the operation's name.
  void (*meet)(const char* what, unsigned mask, uint64_t in, uint64_t* out);
  // Ends the launch with a fault.
  void (*trap)(const char* why);
};

struct Entry {
  uint32_t version;
  uint32_t arch;             // 90: compiled for sm_90; 0: for any
  uint64_t parameter_bytes;  // of the one struct it takes
  uint64_t max_threads;      // of a block
  // Runs one thread of the grid, the one that *current names.
  void (*run)(const void* parameters);
  // Where the module keeps which thread of the grid runs: its grids take turns.
  const Thread** (*current)();
  const Services** services;
};

}  // namespace fakecuda
