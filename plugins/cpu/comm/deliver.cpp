// SPDX-License-Identifier: Apache-2.0
// deliver.cpp: what one rank computes and copies, once everyone's contribution lies somewhere.
//
// Invariant: a long piece of work is cut, and between two cuts the rank shows that it lives and looks whether the others
// have given up.
#include "collect.hpp"

#include <algorithm>
#include <cstring>

namespace tenon::cpu::comm {
bool Collector::deliver(const Operation& o, const Part& part) {
  const uint64_t bytes = part.count * o.width;
  std::byte* const to = o.recv == nullptr ? nullptr : o.recv + part.first * o.width;
  if (to == nullptr || bytes == 0) return true;
  const uint64_t own = rank_ * part.stride, between = o.count * o.width;
  switch (o.kind) {
    case TN_COMM_ALL_REDUCE:
    case TN_COMM_REDUCE:
      return reduce(o, 0, part.count, {&to, 1});
    case TN_COMM_REDUCE_SCATTER:
      return reduce(o, own, part.count, {&to, 1});
    case TN_COMM_BROADCAST:
      return copy(to, sources_[static_cast<uint32_t>(o.root)], bytes);
    case TN_COMM_ALL_GATHER:
      for (uint32_t q = 0; q < size_; ++q) {
        if (!copy(to + q * between, sources_[q], bytes)) return false;
      }
      return true;
    case TN_COMM_ALL_TO_ALL:
      for (uint32_t q = 0; q < size_; ++q) {
        if (!copy(to + q * between, sources_[q] + own, bytes)) return false;
      }
      return true;
    default:
      return true;
  }
}

bool Collector::copy(std::byte* to, const std::byte* from, uint64_t bytes) {
  if (to == from) return true;
  for (uint64_t at = 0; at < bytes; at += piece) {
    std::memcpy(to + at, from + at, std::min(piece, bytes - at));
    if (bytes > piece && !member_.goes_on()) return false;
  }
  return true;
}

bool Collector::reduce(const Operation& o, uint64_t skip, uint64_t count, std::span<std::byte* const> outs) {
  const ReduceRow row_of = reduce_row(o.dtype, o.reduce);
  const uint64_t in_one = piece / o.width;
  for (uint64_t at = 0; at < count; at += in_one) {
    for (uint32_t q = 0; q < size_; ++q) moved_sources_[q] = sources_[q] + skip + at * o.width;
    for (size_t k = 0; k < outs.size(); ++k) moved_outs_[k] = outs[k] + at * o.width;
    const Row row{.sources = moved_sources_.data(),
                  .factors = o.reduce == TN_REDUCE_PREMUL_SUM ? factors_.data() : nullptr,
                  .ranks = size_,
                  .mean = o.reduce == TN_REDUCE_AVG,
                  .outs = moved_outs_.data(),
                  .out_count = static_cast<uint32_t>(outs.size()),
                  .count = std::min(in_one, count - at)};
    row_of(&row);
    if (count > in_one && !member_.goes_on()) return false;
  }
  return true;
}

}  // namespace tenon::cpu::comm
