// SPDX-License-Identifier: Apache-2.0
// layout.hpp: which values share memory: places in one block for what lives between fragments.
//
// Invariant: two values whose lives overlap have places that do not.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tenon::plan_room {

// A value or workspace: written by launch `from`, last needed by launch `to`.
struct Life {
  uint64_t bytes = 0;
  uint32_t from = 0, to = 0;
};

struct Layout {
  std::vector<uint64_t> places{};  // one for each life
  uint64_t bytes = 0;              // of the block
  uint64_t bytes_without_reuse = 0;
};

// Best fit, in the order of the launches; places are multiples of `alignment`. Lives are sorted by `from`.
// [any-thread; does not block; cannot fail]
Layout lay_out(std::span<const Life> lives, uint64_t alignment);

}  // namespace tenon::plan_room
