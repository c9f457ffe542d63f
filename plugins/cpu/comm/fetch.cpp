// SPDX-License-Identifier: Apache-2.0
// fetch.cpp: collectives over memory that other processes may read, and no more: everyone reads what it needs.
//
// Where a sum goes to all, each rank sums its slice first and the others then read it: half of what reading everything would
// take. Nobody's memory is written but by its owner.
// Invariant: a rank leaves its group after the step that says that nobody reads its memory any more.
#include "collect.hpp"

#include <algorithm>

namespace tenon::cpu::comm {

namespace {

// Of each rank at a time; what is summed is still in the cache that it was read into.
constexpr uint64_t mouthful = 64 << 10;

}  // namespace

Status Collector::run_fetched(std::span<const Operation> operations) {
  for (uint32_t i = 0; i < operations.size(); ++i) {
    if (operations[i].count == 0) continue;
    gather_factors(operations[i], i);
    if (!fetch(operations[i], i)) return member_.failure();
  }
  member_.post();
  return {};
}

Status Collector::take_results(std::span<const Operation> operations) {
  for (uint32_t i = 0; i < operations.size(); ++i) {
    if (operations[i].kind == TN_COMM_ALL_REDUCE && !fetch_results(operations[i], i))
      return member_.failure();
  }
  member_.post();
  return {};
}

bool Collector::fetch(const Operation& o, uint32_t index) {
  const auto brought = [&](uint32_t q) -> const Window& {
    return member_.segment().board(q, turn_).cards()[index].send;
  };
  const uint64_t bytes = o.count * o.width, own = rank_ * bytes;
  const auto take = [&](uint32_t q, uint64_t skip, std::byte* to) {
    if (q == rank_) return to == o.send + skip || copy(to, o.send + skip, bytes);
    return atlas_.fetch(q, brought(q), skip, {to, bytes});
  };
  if (o.recv == nullptr) return true;
  switch (o.kind) {
    case TN_COMM_ALL_REDUCE: {
      const Slice slice(o.count, o.width, rank_, size_);
      const uint64_t skip = slice.begin * o.width;
      return fetch_sum(o, index, skip, slice.end - slice.begin, o.recv + skip);
    }
    case TN_COMM_REDUCE:
      return fetch_sum(o, index, 0, o.count, o.recv);
    case TN_COMM_REDUCE_SCATTER:
      return fetch_sum(o, index, own, o.count, o.recv);
    case TN_COMM_BROADCAST:
      return take(static_cast<uint32_t>(o.root), 0, o.recv);
    case TN_COMM_ALL_GATHER:
    case TN_COMM_ALL_TO_ALL:
      for (uint32_t q = 0; q < size_; ++q) {
        if (!take(q, o.kind == TN_COMM_ALL_TO_ALL ? own : 0, o.recv + q * bytes)) return false;
      }
      return true;
    default:
      return true;
  }
}

// `count` elements of all ranks, from `skip_bytes` on, become their sum at `to`.
bool Collector::fetch_sum(const Operation& o, uint32_t index, uint64_t skip_bytes, uint64_t count,
                          std::byte* to) {
  fetched_.resize(size_ * mouthful);
  const uint64_t in_one = mouthful / o.width;
  for (uint64_t at = 0; at < count; at += in_one) {
    const uint64_t n = std::min(in_one, count - at), skip = skip_bytes + at * o.width;
    for (uint32_t q = 0; q < size_; ++q) {
      const Window& window = member_.segment().board(q, turn_).cards()[index].send;
      std::byte* const room = fetched_.data() + q * mouthful;
      sources_[q] = q == rank_ ? o.send + skip : room;
      if (q != rank_ && !atlas_.fetch(q, window, skip, {room, n * o.width})) return false;
    }
    std::byte* const out = to + at * o.width;
    if (!reduce(o, 0, n, {&out, 1})) return false;
  }
  return true;
}

bool Collector::fetch_results(const Operation& o, uint32_t index) {
  for (uint32_t q = 0; q < size_; ++q) {
    if (q == rank_) continue;
    const Slice slice(o.count, o.width, q, size_);
    const uint64_t skip = slice.begin * o.width, bytes = (slice.end - slice.begin) * o.width;
    const Window& window = member_.segment().board(q, turn_).cards()[index].recv;
    if (!atlas_.fetch(q, window, skip, {o.recv + skip, bytes})) return false;
  }
  return true;
}

}  // namespace tenon::cpu::comm
