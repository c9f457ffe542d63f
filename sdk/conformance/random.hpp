// SPDX-License-Identifier: Apache-2.0
// random.hpp: the numbers a case draws.
//
// Invariant: equal seeds draw equal numbers on every machine and compiler (std distributions would not), and `drawn`
// tells two runs apart: it is equal when, and practically only when, the same numbers were drawn.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace tenon::conform {

// Spreads the bits of `value` (splitmix64). [any-thread; does not block; cannot fail]
constexpr uint64_t mix(uint64_t value) noexcept {
  value += 0x9e3779b97f4a7c15u;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

class Random {
 public:
  explicit constexpr Random(uint64_t seed) noexcept : state_(seed) {}
  // The generator of case `name` in round `round` of a run. [any-thread; does not block; cannot fail]
  static constexpr Random of(uint64_t seed, std::string_view name, uint64_t round) noexcept {
    uint64_t hash = mix(seed);
    for (const char c : name) hash = mix(hash ^ static_cast<unsigned char>(c));
    return Random(mix(hash ^ round));
  }

  constexpr uint64_t next() noexcept {
    const uint64_t value = mix(state_++);
    drawn_ = mix(drawn_ ^ value);
    return value;
  }
  // 0 … bound-1; bound is at least 1.
  constexpr uint64_t below(uint64_t bound) noexcept { return next() % bound; }
  // low … high, both included.
  constexpr uint64_t between(uint64_t low, uint64_t high) noexcept { return low + below(high - low + 1); }
  constexpr bool chance(uint64_t one_in) noexcept { return below(one_in) == 0; }
  void fill(std::span<std::byte> bytes) noexcept {
    uint64_t word = 0;
    for (size_t i = 0; i < bytes.size(); ++i) {
      if (i % 8 == 0) word = next();
      bytes[i] = static_cast<std::byte>(word >> (8 * (i % 8)));
    }
  }
  // A digest of all that was drawn.
  constexpr uint64_t drawn() const noexcept { return drawn_; }

 private:
  uint64_t state_;
  uint64_t drawn_ = 0;
};

}  // namespace tenon::conform
