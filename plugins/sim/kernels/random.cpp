// SPDX-License-Identifier: Apache-2.0
// random.cpp: Philox4x32-10, and what is drawn with it.
//
// The block of element i has counter offset + i, low word first, and key = seed + attribute `key` · 0x9E3779B97F4A7C15.
// Its first word is the element's draw; a normal number takes the second as its angle.
#include "node.hpp"

#include <array>
#include <cmath>
#include <numbers>

namespace tenon::sim {

namespace {

using Block = std::array<uint32_t, 4>;

Block philox(uint64_t counter, uint64_t key) {
  Block x{static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0};
  auto low = static_cast<uint32_t>(key), high = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * x[0], b = uint64_t{0xCD9E8D57} * x[2];
    x = {static_cast<uint32_t>(b >> 32) ^ x[1] ^ low, static_cast<uint32_t>(b),
         static_cast<uint32_t>(a >> 32) ^ x[3] ^ high, static_cast<uint32_t>(a)};
    low += 0x9E3779B9;
    high += 0xBB67AE85;
  }
  return x;
}

// The draws of a node whose seed is input `seed`, and offset the next.
class Draws {
 public:
  Draws(const Call& c, size_t seed)
      : key_(c.in[seed].bits(0) + static_cast<uint64_t>(c.node.integer("key")) * 0x9E3779B97F4A7C15u),
        offset_(c.in[seed + 1].bits(0)) {}
  Block operator()(uint64_t element) const { return philox(offset_ + element, key_); }

 private:
  uint64_t key_, offset_;
};

void dropout(const Call& c) {
  const Draws draws(c, 1);
  const double rate = c.node.real("rate"), threshold = std::ldexp(rate, 32);
  for (uint64_t i = 0; i < c.out[0].count(); ++i)
    c.out[0].set(i, draws(i)[0] >= threshold ? c.in[0].real(i) / (1 - rate) : 0);
}

void uniform(const Call& c) {
  const Draws draws(c, 0);
  for (uint64_t i = 0; i < c.out[0].count(); ++i) c.out[0].set(i, std::ldexp(draws(i)[0] >> 8, -24));
}

void normal(const Call& c) {
  const Draws draws(c, 0);
  for (uint64_t i = 0; i < c.out[0].count(); ++i) {
    const Block words = draws(i);
    const double size = std::sqrt(-2 * std::log(std::ldexp(words[0] + 1.0, -32)));
    c.out[0].set(i, size * std::cos(2 * std::numbers::pi * std::ldexp(words[1], -32)));
  }
}

void advance(const Call& c) {
  for (uint64_t i = 0; i < c.out[0].count(); ++i)
    c.out[0].set_bits(i, c.in[0].bits(i) + static_cast<uint64_t>(c.node.integer("by")));
}

}  // namespace

Routine random(uint32_t op) {
  switch (op) {
    case TN_OP_dropout:
      return dropout;
    case TN_OP_random_uniform:
      return uniform;
    case TN_OP_random_normal:
      return normal;
    case TN_OP_advance:
      return advance;
    default:
      return nullptr;
  }
}

}  // namespace tenon::sim
