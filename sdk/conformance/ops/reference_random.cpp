// SPDX-License-Identifier: Apache-2.0
// reference_random.cpp: Philox4x32-10 and what is drawn with it.
//
// Invariant: counter, key and the use of words are those of ops.def's conventions.
#include "conformance/ops/reference.hpp"

#include <array>
#include <numbers>

namespace tenon::conform::reference {

namespace {

using Block = std::array<uint32_t, 4>;

// Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3".
Block philox(uint64_t counter, uint64_t key) {
  Block x{static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0};
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

// The blocks of one node: inputs `seed` and `seed + 1` hold seed and offset.
class Drawn {
 public:
  Drawn(const Job& job, size_t seed)
      : key_(job.in[seed].at[0].whole +
             static_cast<uint64_t>(job.trial.integer("key")) * 0x9E3779B97F4A7C15u),
        offset_(job.in[seed + 1].at[0].whole) {}
  Block at(uint64_t element) const { return philox(offset_ + element, key_); }

 private:
  uint64_t key_, offset_;
};

}  // namespace

void dropout(Job& job) {
  const Drawn drawn(job, 1);
  const double rate = job.trial.real("rate");
  Tensor& out = job.out[0].tensor;
  std::vector<double>& magnitude = magnitudes(job, 0);
  for (uint64_t i = 0; i < out.at.size(); ++i) {
    const bool kept = drawn.at(i)[0] >= rate * 0x1p32;
    out.at[i].real = kept ? job.real(0, i) / (1 - rate) : 0;
    magnitude[i] = std::fabs(out.at[i].real);
  }
}

void random_uniform(Job& job) {
  const Drawn drawn(job, 0);
  Tensor& out = job.out[0].tensor;
  for (uint64_t i = 0; i < out.at.size(); ++i)
    out.at[i].real = rounded(format_of(out.dtype), (drawn.at(i)[0] >> 8) * 0x1p-24);
}

void random_normal(Job& job) {
  const Drawn drawn(job, 0);
  Tensor& out = job.out[0].tensor;
  std::vector<double>& magnitude = magnitudes(job, 0);
  for (uint64_t i = 0; i < out.at.size(); ++i) {
    const Block words = drawn.at(i);
    const double size = std::sqrt(-2 * std::log((words[0] + 1.0) * 0x1p-32));
    out.at[i].real = size * std::cos(2 * std::numbers::pi * words[1] * 0x1p-32);
    magnitude[i] = size * 8;  // the angle's rounding
  }
}

void advance(Job& job) {
  job.out[0].tensor.at[0].whole =
      wrapped(job.in[0].dtype, job.in[0].at[0].whole + static_cast<uint64_t>(job.trial.integer("by")));
}

}  // namespace tenon::conform::reference
