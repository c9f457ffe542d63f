// SPDX-License-Identifier: Apache-2.0
// sha256_blocks.hpp: the ways to digest whole blocks of 64 bytes, for sha256.cpp and its test.
//
// Invariant: all ways of a host compute the same state.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tenon::base {

using Sha256State = std::array<uint32_t, 8>;

struct Sha256Way {
  const char* name;
  void (*digest)(Sha256State& state, const std::byte* bytes, size_t blocks) noexcept;
};

// Those that this processor has, the fastest first; the last is plain C++. [any-thread; does not block; cannot fail]
std::vector<Sha256Way> sha256_ways();

}  // namespace tenon::base
