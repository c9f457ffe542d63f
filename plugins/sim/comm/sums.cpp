// SPDX-License-Identifier: Apache-2.0
// sums.cpp: reductions element by element, and blocks that change their place.
#include "sums.hpp"

#include "kernels/number.hpp"

#include <tenon/comm.h>
#include <tenon/author/comm_checks.hpp>

#include <algorithm>
#include <cmath>

namespace tenon::sim::comm {

namespace {

using Parts = std::span<const Part* const>;

constexpr uint64_t bit(uint32_t number) { return uint64_t{1} << number; }

Wide joined(uint32_t reduce, Wide a, Wide b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) ? a : b;
  switch (reduce) {
    case TN_REDUCE_PROD:
      return a * b;
    case TN_REDUCE_MIN:
      return std::min(a, b);
    case TN_REDUCE_MAX:
      return std::max(a, b);
    default:
      return a + b;
  }
}

uint64_t joined(uint32_t reduce, bool is_signed, uint64_t a, uint64_t b) {
  const bool less = is_signed ? static_cast<int64_t>(a) < static_cast<int64_t>(b) : a < b;
  switch (reduce) {
    case TN_REDUCE_PROD:
      return a * b;
    case TN_REDUCE_MIN:
      return less ? a : b;
    case TN_REDUCE_MAX:
      return less ? b : a;
    default:
      return a + b;
  }
}

// One element of all ranks.
void reduce_one(Parts parts, uint64_t at, std::byte* to) {
  const uint32_t dtype = parts[0]->dtype, reduce = parts[0]->reduce;
  if (is_real(dtype)) {
    Wide sum = load_real(dtype, parts[0]->bytes.data() + at);
    for (const Part* part : parts.subspan(1))
      sum = joined(reduce, sum, load_real(dtype, part->bytes.data() + at));
    return store_real(dtype, to, sum);
  }
  uint64_t sum = load_bits(dtype, parts[0]->bytes.data() + at);
  for (const Part* part : parts.subspan(1))
    sum = joined(reduce, is_signed(dtype), sum, load_bits(dtype, part->bytes.data() + at));
  store_bits(dtype, to, sum);
}

Bytes reduced(Parts parts) {
  Bytes out(parts[0]->bytes.size());
  const uint64_t width = bytes_of(parts[0]->dtype);
  for (uint64_t at = 0; at < out.size(); at += width) reduce_one(parts, at, out.data() + at);
  return out;
}

Bytes gathered(Parts parts) {
  Bytes out;
  for (const Part* part : parts) out.insert(out.end(), part->bytes.begin(), part->bytes.end());
  return out;
}

// What each rank gets where each has brought a block for every one: `counts` of elements, or nothing where all are equal.
Bytes blocks_for(Parts parts, uint64_t rank) {
  Bytes out;
  for (const Part* part : parts) {
    uint64_t begin = rank * part->count, count = part->count;
    if (!part->send_counts.empty()) {
      begin = 0;
      for (uint64_t r = 0; r < rank; ++r) begin += part->send_counts[r];
      count = part->send_counts[rank];
    }
    const uint64_t width = bytes_of(part->dtype);
    const auto first = part->bytes.begin() + static_cast<std::ptrdiff_t>(begin * width);
    out.insert(out.end(), first, first + static_cast<std::ptrdiff_t>(count * width));
  }
  return out;
}

Bytes block_of(const Bytes& all, uint64_t rank, uint64_t ranks) {
  const auto size = static_cast<std::ptrdiff_t>(all.size() / ranks);
  const auto first = all.begin() + static_cast<std::ptrdiff_t>(rank) * size;
  return {first, first + size};
}

}  // namespace

// As the chip's library states: no bool, no mean, no factor; unsigned integers are moved and not summed.
void list_taken(tn_comm_limits& out) noexcept {
  for (uint32_t kind = TN_COMM_ALL_REDUCE; kind <= TN_COMM_BARRIER; ++kind) out.kind_mask |= bit(kind);
  for (const uint32_t reduce : {TN_REDUCE_SUM, TN_REDUCE_PROD, TN_REDUCE_MIN, TN_REDUCE_MAX})
    out.reduce_mask |= bit(reduce);
  for (const uint32_t dtype :
       {TN_DTYPE_i8, TN_DTYPE_i16, TN_DTYPE_i32, TN_DTYPE_i64, TN_DTYPE_f16, TN_DTYPE_bf16, TN_DTYPE_f32})
    out.reducible_mask |= bit(dtype);
  out.dtype_mask = out.reducible_mask;
  for (const uint32_t dtype : {TN_DTYPE_u8, TN_DTYPE_u16, TN_DTYPE_u32, TN_DTYPE_u64})
    out.dtype_mask |= bit(dtype);
}

std::vector<Bytes> results_of(Parts parts) {
  const Part& first = *parts[0];
  const uint64_t ranks = parts.size();
  std::vector<Bytes> out(ranks);
  const auto to_all = [&](const Bytes& result) { std::fill(out.begin(), out.end(), result); };
  switch (first.kind) {
    case TN_COMM_ALL_REDUCE:
      to_all(reduced(parts));
      break;
    case TN_COMM_REDUCE:
      out[first.peer] = reduced(parts);
      break;
    case TN_COMM_REDUCE_SCATTER: {
      const Bytes all = reduced(parts);
      for (uint64_t r = 0; r < ranks; ++r) out[r] = block_of(all, r, ranks);
      break;
    }
    case TN_COMM_BROADCAST:
      to_all(parts[first.peer]->bytes);
      break;
    case TN_COMM_ALL_GATHER:
      to_all(gathered(parts));
      break;
    case TN_COMM_ALL_TO_ALL:
    case TN_COMM_ALL_TO_ALL_V:
      for (uint64_t r = 0; r < ranks; ++r) out[r] = blocks_for(parts, r);
      break;
    default:
      break;  // a barrier gives nothing
  }
  return out;
}

}  // namespace tenon::sim::comm
