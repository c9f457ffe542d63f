// SPDX-License-Identifier: Apache-2.0
// sizes.hpp: structs that know less or more than the plugin, and a look behind their end.
//
// Invariant: a struct that is filled is followed by known bytes; one that is read ends where a page ends that faults.
#pragma once

#include "conformance/guard.hpp"

#include <cstring>

namespace tenon::conform {

// Calls `fill` with an out-struct of every size from 4 bytes to past the known end, and looks behind it.
template <class Struct, class Fill>
void try_sizes(Context& t, const char* name, Fill&& fill) {
  constexpr unsigned char canary = 0xA5;
  constexpr auto known = static_cast<uint32_t>(sizeof(Struct));
  alignas(Struct) unsigned char room[known + 256];
  for (const uint32_t size :
       {4u, 8u, 12u, 16u, 24u, known / 2 / 4 * 4, known - 8, known - 4, known, known + 8, known + 128}) {
    std::memset(room, canary, sizeof room);
    auto* const out = reinterpret_cast<Struct*>(room);
    out->size = size;
    const Status said = fill(out);
    t.check(said.ok(), name, " of size ", size, ": ", said.message());
    t.check(out->size == size, name, " of size ", size, " says ", out->size,
            " afterwards: the size is the caller's");
    size_t beyond = size;
    while (beyond < sizeof room && room[beyond] == canary) ++beyond;
    t.check(beyond == sizeof room, name, " of size ", size, ": byte ", beyond, " was written");
  }
}

// What a caller that knows `size` bytes of a struct passes: longer than the struct it ends with bytes that nobody knows.
template <class Struct>
class Sized {
 public:
  Sized(Struct whole, uint32_t size) : room_(size) {
    whole.size = size;
    std::memset(room_.data(), 0xFF, size);
    std::memcpy(room_.data(), &whole, std::min<size_t>(size, sizeof whole));
  }
  const Struct* get() const noexcept { return reinterpret_cast<const Struct*>(room_.data()); }

 private:
  Fenced room_;
};

}  // namespace tenon::conform
