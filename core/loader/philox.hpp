// SPDX-License-Identifier: Apache-2.0
// philox.hpp: Philox4x32-10 (Salmon et al., 2011), the generator of ops.def, for draws on the host.
//
// Invariant: a draw is a function of its key and its counter, so it does not matter who draws first.
#pragma once

#include <array>
#include <cstdint>

namespace tenon::loader {

using Draws = std::array<uint32_t, 4>;

// What a draw is for; the attribute `key` of ops.def. The ops of a graph count theirs from 0 on.
enum class Purpose : uint64_t { order = uint64_t{1} << 32, image };

// [any-thread; does not block; cannot fail]
constexpr uint64_t key_of(uint64_t seed, Purpose purpose) noexcept {
  return seed + static_cast<uint64_t>(purpose) * 0x9E3779B97F4A7C15u;
}

// The block of a 128-bit counter, low words first. [any-thread; does not block; cannot fail]
constexpr Draws philox(uint64_t key, uint64_t low, uint64_t high) noexcept {
  Draws x{static_cast<uint32_t>(low), static_cast<uint32_t>(low >> 32), static_cast<uint32_t>(high),
          static_cast<uint32_t>(high >> 32)};
  auto k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * x[0], b = uint64_t{0xCD9E8D57} * x[2];
    x = {static_cast<uint32_t>(b >> 32) ^ x[1] ^ k0, static_cast<uint32_t>(b),
         static_cast<uint32_t>(a >> 32) ^ x[3] ^ k1, static_cast<uint32_t>(a)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return x;
}

// ⌊draw · n / 2³²⌋: one of n numbers. [any-thread; does not block; cannot fail]
constexpr uint32_t below(uint32_t n, uint32_t draw) noexcept {
  return static_cast<uint32_t>((uint64_t{draw} * n) >> 32);
}

}  // namespace tenon::loader
