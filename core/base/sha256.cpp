// SPDX-License-Identifier: Apache-2.0
// sha256.cpp: see sha256.hpp. Names follow the standard (a … h, w, k), so that the two can be read side by side.
//
// Invariant: the processor's own instructions and the plain form give the same digest.
#include "base/sha256.hpp"

#include "base/host.hpp"
#include "base/sha256_blocks.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace tenon::base {
namespace {

using State = Sha256State;

alignas(16) constexpr std::array<uint32_t, 64> k = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t load_big_endian(const std::byte* bytes) noexcept {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value = value << 8 | std::to_integer<uint32_t>(bytes[i]);
  return value;
}

std::array<uint32_t, 64> schedule(const std::byte* block) noexcept {
  std::array<uint32_t, 64> w;
  for (size_t t = 0; t < 16; ++t) w[t] = load_big_endian(block + 4 * t);
  for (size_t t = 16; t < 64; ++t) {
    const uint32_t s0 = std::rotr(w[t - 15], 7) ^ std::rotr(w[t - 15], 18) ^ w[t - 15] >> 3;
    const uint32_t s1 = std::rotr(w[t - 2], 17) ^ std::rotr(w[t - 2], 19) ^ w[t - 2] >> 10;
    w[t] = w[t - 16] + s0 + w[t - 7] + s1;
  }
  return w;
}

void digest_plain(State& state, const std::byte* bytes, size_t blocks) noexcept {
  for (; blocks > 0; --blocks, bytes += 64) {
    const auto w = schedule(bytes);
    auto [a, b, c, d, e, f, g, h] = state;
    for (size_t t = 0; t < 64; ++t) {
      const uint32_t big1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
      const uint32_t t1 = h + big1 + ((e & f) ^ (~e & g)) + k[t] + w[t];
      const uint32_t big0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
      const uint32_t t2 = big0 + ((a & b) ^ (a & c) ^ (b & c));
      h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
    }
    const State step = {a, b, c, d, e, f, g, h};
    for (size_t i = 0; i < 8; ++i) state[i] += step[i];
  }
}

#ifdef __x86_64__

// Four rounds an iteration. The instructions keep the state as (a, b, e, f) and (c, d, g, h), high lanes first; `w` holds the
// sixteen words that the next ones are made of.
__attribute__((target("sha,sse4.1"))) void digest_sha_ni(State& state, const std::byte* bytes,
                                                         size_t blocks) noexcept {
  const auto load = [](const void* from) { return _mm_loadu_si128(static_cast<const __m128i*>(from)); };
  const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  const __m128i badc = _mm_shuffle_epi32(load(&state[0]), 0xb1),
                hgfe = _mm_shuffle_epi32(load(&state[4]), 0x1b);
  __m128i abef = _mm_alignr_epi8(badc, hgfe, 8), cdgh = _mm_blend_epi16(hgfe, badc, 0xf0);
  for (; blocks > 0; --blocks, bytes += 64) {
    const __m128i abef_before = abef, cdgh_before = cdgh;
    __m128i w[4];
    for (size_t i = 0; i < 4; ++i) w[i] = _mm_shuffle_epi8(load(bytes + 16 * i), big_endian);
    for (size_t i = 0; i < 16; ++i) {
      __m128i& now = w[i % 4];
      if (i >= 4) {
        const __m128i last = w[(i + 3) % 4], seventh = _mm_alignr_epi8(last, w[(i + 2) % 4], 4);
        now = _mm_sha256msg2_epu32(_mm_add_epi32(_mm_sha256msg1_epu32(now, w[(i + 1) % 4]), seventh), last);
      }
      const __m128i wk = _mm_add_epi32(now, load(&k[4 * i]));
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, wk);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(wk, 0x0e));
    }
    abef = _mm_add_epi32(abef, abef_before);
    cdgh = _mm_add_epi32(cdgh, cdgh_before);
  }
  const __m128i feba = _mm_shuffle_epi32(abef, 0x1b), dchg = _mm_shuffle_epi32(cdgh, 0xb1);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(&state[0]), _mm_blend_epi16(feba, dchg, 0xf0));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(&state[4]), _mm_alignr_epi8(dchg, feba, 8));
}

#endif

void digest_blocks(State& state, const std::byte* bytes, size_t blocks) noexcept {
  static const Sha256Way chosen = sha256_ways().front();
  chosen.digest(state, bytes, blocks);
}

}  // namespace

std::vector<Sha256Way> sha256_ways() {
  std::vector<Sha256Way> ways;
#ifdef __x86_64__
  if (host_has("sha_ni") && host_has("sse4_1")) ways.push_back({"sha_ni", digest_sha_ni});
#endif
  ways.push_back({"plain", digest_plain});
  return ways;
}

void Sha256::add(std::span<const std::byte> bytes) noexcept {
  size_t held = total_ % pending_.size();
  total_ += bytes.size();
  if (held != 0) {
    const size_t taken = std::min(bytes.size(), pending_.size() - held);
    std::copy_n(bytes.begin(), taken, pending_.begin() + held);
    bytes = bytes.subspan(taken);
    if (held + taken < pending_.size()) return;
    digest_blocks(state_, pending_.data(), 1);
    held = 0;
  }
  const size_t blocks = bytes.size() / pending_.size();
  digest_blocks(state_, bytes.data(), blocks);
  std::ranges::copy(bytes.subspan(blocks * pending_.size()), pending_.begin());
}

Digest Sha256::finish() noexcept {
  const uint64_t bits = total_ * 8;
  static constexpr std::array<std::byte, 64> padding = {std::byte{0x80}};
  const size_t held = total_ % 64;
  add(std::span(padding).first(held < 56 ? 56 - held : 120 - held));
  std::array<std::byte, 8> length;
  for (size_t i = 0; i < 8; ++i) length[i] = static_cast<std::byte>(bits >> (56 - 8 * i));
  add(length);
  Digest digest;
  for (size_t i = 0; i < 32; ++i) digest[i] = static_cast<uint8_t>(state_[i / 4] >> (24 - 8 * (i % 4)));
  return digest;
}

Digest sha256(std::span<const std::byte> bytes) noexcept {
  Sha256 hash;
  hash.add(bytes);
  return hash.finish();
}

Digest sha256(std::string_view text) noexcept { return sha256(std::as_bytes(std::span(text))); }

}  // namespace tenon::base
