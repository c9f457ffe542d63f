// SPDX-License-Identifier: Apache-2.0
// wire.hpp: what goes over a store's connections.
//
//   server → client   magic, challenge (32 bytes)
//   client → server   HMAC-SHA-256 of the challenge under the token (32 bytes)
//   server → client   a reply; a wrong token ends here
//   client → server   a frame: u32 length, 'S', 'G' or 'L', u16 length of the key, key, value
//   server → client   a reply: u32 length, u8 code, value or words; a 'G' is answered when the key is there, an 'L' at once
//
// Numbers are little-endian. A client that gives up waiting closes its connection.
// Invariant: the token itself is never sent, and a challenge is never used twice.
#pragma once

#include "base/sha256.hpp"
#include "comm/store.hpp"

#include <string>
#include <string_view>

namespace tenon::comm {

inline constexpr std::string_view wire_magic = "TENONST2";
inline constexpr size_t challenge_bytes = 32, proof_bytes = 32, length_bytes = 4;
inline constexpr size_t largest_frame = largest_value + longest_key + 16;

inline std::string number_text(uint64_t number, size_t size) {
  std::string out;
  for (size_t i = 0; i < size; ++i) out += static_cast<char>(number >> 8 * i & 0xff);
  return out;
}
inline uint64_t number_in(std::string_view text) noexcept {
  uint64_t number = 0;
  for (size_t i = text.size(); i > 0; --i) number = number << 8 | static_cast<unsigned char>(text[i - 1]);
  return number;
}
inline std::string framed(std::string_view body) {
  return number_text(body.size(), length_bytes) + std::string(body);
}

// HMAC (RFC 2104) with SHA-256.
inline std::string proof_of(std::string_view token, std::string_view challenge) {
  constexpr size_t block = 64;
  const auto text = [](const base::Digest& digest) {
    return std::string(reinterpret_cast<const char*>(digest.data()), digest.size());
  };
  std::string key(token.size() > block ? text(base::sha256(token)) : std::string(token));
  key.resize(block, '\0');
  std::string inner = key, outer = key;
  for (char& letter : inner) letter = static_cast<char>(letter ^ 0x36);
  for (char& letter : outer) letter = static_cast<char>(letter ^ 0x5c);
  return text(base::sha256(outer + text(base::sha256(inner + std::string(challenge)))));
}
// Takes the same time wherever they differ.
inline bool same_proof(std::string_view a, std::string_view b) noexcept {
  unsigned char differ = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) differ |= static_cast<unsigned char>(a[i] ^ b[i]);
  return differ == 0;
}

}  // namespace tenon::comm
