// SPDX-License-Identifier: Apache-2.0
// digest.cpp: SHA-256 as FIPS 180-4 writes it, over whole buffers.
#include "conformance/digest.hpp"

#include "conformance/content.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

namespace tenon::conform {

namespace {

using State = std::array<uint32_t, 8>;

// The first 32 bits of the fractional part of the `power` root of the first primes: how the standard defines both tables.
template <size_t N>
std::array<uint32_t, N> root_table(long double power) {
  std::array<uint32_t, N> out{};
  size_t found = 0;
  for (uint32_t candidate = 2; found < N; ++candidate) {
    bool prime = true;
    for (uint32_t d = 2; d * d <= candidate; ++d) prime = prime && candidate % d != 0;
    if (!prime) continue;
    const long double root = std::pow(static_cast<long double>(candidate), power);
    out[found++] = static_cast<uint32_t>(std::ldexp(root - std::floor(root), 32));
  }
  return out;
}

void absorb(State& state, const unsigned char* block, const uint32_t* constants) {
  uint32_t w[64];
  for (size_t i = 0; i < 16; ++i) {
    w[i] = static_cast<uint32_t>(block[4 * i]) << 24 | static_cast<uint32_t>(block[4 * i + 1]) << 16 |
           static_cast<uint32_t>(block[4 * i + 2]) << 8 | block[4 * i + 3];
  }
  for (size_t i = 16; i < 64; ++i) {
    const uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
    const uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (size_t i = 0; i < 64; ++i) {
    const uint32_t t1 = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + ((e & f) ^ (~e & g)) +
                        constants[i] + w[i];
    const uint32_t t2 =
        (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
  }
  const State round{a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < 8; ++i) state[i] += round[i];
}

}  // namespace

std::string digest(std::span<const unsigned char> bytes) {
  static const auto constants = root_table<64>(1.0L / 3);
  State state = root_table<8>(1.0L / 2);
  const size_t whole = bytes.size() / 64 * 64;
  for (size_t at = 0; at < whole; at += 64) absorb(state, bytes.data() + at, constants.data());
  std::vector<unsigned char> rest(bytes.begin() + static_cast<std::ptrdiff_t>(whole), bytes.end());
  rest.push_back(0x80);
  while (rest.size() % 64 != 56) rest.push_back(0);
  const uint64_t bits = static_cast<uint64_t>(bytes.size()) * 8;
  for (int shift = 56; shift >= 0; shift -= 8) rest.push_back(static_cast<unsigned char>(bits >> shift));
  for (size_t at = 0; at < rest.size(); at += 64) absorb(state, rest.data() + at, constants.data());
  std::string out;
  for (const uint32_t word : state) {
    for (int shift = 28; shift >= 0; shift -= 4) out += "0123456789abcdef"[(word >> shift) & 15];
  }
  return out;
}

Result<std::string> file_digest(const std::string& file) {
  const std::string content = TN_TRY(content_of(file));
  return digest({reinterpret_cast<const unsigned char*>(content.data()), content.size()});
}

}  // namespace tenon::conform
