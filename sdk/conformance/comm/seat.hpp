// SPDX-License-Identifier: Apache-2.0
// seat.hpp: which rank of a case this process plays, if any.
//
// Invariant: written by the worker before a case begins, read by the case's thread; a process that plays a rank runs that
// one case and no other.
#pragma once

#include <cstdint>
#include <string>

namespace tenon::conform {

struct Seat {
  uint32_t meeting = 0;         // which of the case's
  uint32_t rank = 0, size = 0;  // 0 of 0: it runs the case, and plays none
  std::string folder{};         // where the ranks meet
};

// The case that runs here.
struct Stage {
  Seat seat{};
  uint32_t round = 0;     // of --repeat
  uint32_t meetings = 0;  // of ranks as processes, so far
};
// [case's thread; does not block; cannot fail]
inline Stage& stage() noexcept {
  static Stage here;
  return here;
}

}  // namespace tenon::conform
