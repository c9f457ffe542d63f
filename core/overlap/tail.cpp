// SPDX-License-Identifier: Apache-2.0
// tail.cpp: counts as sums of float32 that stay exact.
//
// A field that each rank sets to 0 or 1 sums to at most `ranks`, so fields of bit_width(ranks) bits never carry; a word holds
// as many as fit into the 24 bits in which every float32 sum is exact.
#include "overlap/arena.hpp"

#include <algorithm>
#include <bit>

namespace tenon {
namespace {

constexpr uint32_t exact_bits = 24;
constexpr uint32_t done_fields = 1;  // behind those of the parameters

uint32_t field(float word, uint32_t bits, uint32_t place) {
  return (static_cast<uint32_t>(word) >> (bits * place)) & ((1u << bits) - 1);
}

}  // namespace

namespace overlap {

CommTail tail_for(uint32_t ranks, uint32_t parameters) {
  CommTail tail;
  tail.parameters = parameters;
  tail.field_bits = static_cast<uint32_t>(std::bit_width(ranks));
  tail.fields_per_word = exact_bits / tail.field_bits;
  tail.limb_bits = std::min(exact_bits - tail.field_bits, 20u);  // three of them fit into 64 bits
  const uint64_t used = (parameters + done_fields + tail.fields_per_word - 1) / tail.fields_per_word;
  tail.bytes = (CommTail::used_word + used) * sizeof(float);
  return tail;
}

}  // namespace overlap

Result<std::vector<float>> CommTail::write(uint64_t samples, bool found_inf,
                                           const std::vector<bool>& used) const {
  std::vector<float> out(words());
  TN_TRY(write(out, samples, found_inf, std::vector<uint8_t>(used.begin(), used.end())));
  return out;
}

Status CommTail::write(std::span<float> out, uint64_t samples, bool found_inf, std::span<const uint8_t> used,
                       bool done) const {
  if (samples > max_samples())
    return Status(TN_INVALID, std::to_string(samples) + " samples on one rank, at most " +
                                  std::to_string(max_samples()) + " can be told: accumulate in more steps");
  if (used.size() != parameters)
    return Status(TN_INVALID, "'used' speaks of " + std::to_string(used.size()) +
                                  " parameters, the plan of " + std::to_string(parameters));
  if (out.size() != words())
    return Status(TN_INVALID,
                  "the tail has " + std::to_string(words()) + " words, not " + std::to_string(out.size()));
  std::fill(out.begin(), out.end(), 0.0f);
  for (uint32_t limb = 0; limb < limbs; ++limb)
    out[limb] = static_cast<float>((samples >> (limb * limb_bits)) & ((uint64_t{1} << limb_bits) - 1));
  out[found_inf_word] = found_inf ? 1.0f : 0.0f;
  const auto set = [&](uint32_t i) {
    out[used_word + i / fields_per_word] += static_cast<float>(1u << (i % fields_per_word * field_bits));
  };
  for (uint32_t i = 0; i < parameters; ++i) {
    if (used[i] != 0) set(i);
  }
  if (done) set(parameters);
  return {};
}

Result<CommTail::Reading> CommTail::read(std::span<const float> sum) const {
  if (sum.size() != words())
    return Status(TN_INVALID,
                  "the tail has " + std::to_string(words()) + " words, not " + std::to_string(sum.size()));
  for (size_t i = 0; i < sum.size(); ++i) {
    if (!(sum[i] >= 0 && sum[i] < static_cast<float>(1u << exact_bits)))
      return Status(TN_INVALID, "word " + std::to_string(i) + " of the tail is " + std::to_string(sum[i]) +
                                    ": no sum of what ranks write; was the arena written over?");
  }
  Reading out;
  for (uint32_t limb = 0; limb < limbs; ++limb)
    out.samples += static_cast<uint64_t>(sum[limb]) << (limb * limb_bits);
  out.ranks_with_inf = static_cast<uint32_t>(sum[found_inf_word]);
  const auto ranks = [&](uint32_t i) {
    return field(sum[used_word + i / fields_per_word], field_bits, i % fields_per_word);
  };
  out.ranks_using.reserve(parameters);
  for (uint32_t i = 0; i < parameters; ++i) out.ranks_using.push_back(ranks(i));
  out.ranks_done = ranks(parameters);
  return out;
}

}  // namespace tenon
