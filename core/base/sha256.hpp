// SPDX-License-Identifier: Apache-2.0
// sha256.hpp: SHA-256 (FIPS 180-4), which names library files and fragments. It is an identity, no signature.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace tenon::base {

using Digest = std::array<uint8_t, 32>;

// Takes bytes in pieces of any size. [one thread]
class Sha256 {
 public:
  void add(std::span<const std::byte> bytes) noexcept;
  void add(std::string_view text) noexcept { add(std::as_bytes(std::span(text))); }
  // The digest of all bytes added; the object is spent afterwards.
  Digest finish() noexcept;

 private:
  std::array<uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, 64> pending_{};
  uint64_t total_ = 0;
};

// [any-thread; does not block; cannot fail]
Digest sha256(std::span<const std::byte> bytes) noexcept;
Digest sha256(std::string_view text) noexcept;

}  // namespace tenon::base
