// SPDX-License-Identifier: Apache-2.0
// cross.cpp: what travels between hosts so that boards and stages read the same on all of them.
//
// Where all ranks of a host need the same bytes, one of them receives them for all: its agent for that sender. Where each
// needs other bytes (its slice, its block), each receives its own.
// A rank that is alone on its host has no mates who read its stage: it sends sums from its caller's memory, and receives them there.
// What it sends of a buffer that the sums come to, too, is gone before the sum can be there that was made of it.
// Invariant: a part of a rank's stage lands where it would lie if that rank were here, and two ranks of a host never write
// the same bytes.
#include "collect.hpp"

#include <cstddef>

namespace tenon::cpu::comm {

bool Collector::receives_for_host(uint32_t rank) const noexcept {
  return bridge_->hosts().agent(bridge_->hosts().host_of(rank_), rank) == rank_;
}

void Collector::leave_for_hosts(const std::byte* mine, uint64_t bytes) {
  const Hosts& hosts = bridge_->hosts();
  for (uint32_t host = 0; bytes != 0 && host < hosts.count(); ++host) {
    if (host != hosts.host_of(rank_)) leaving_.push_back({hosts.agent(host, rank_), mine, bytes});
  }
}

Status Collector::begin_crossing(Bridge::Transfers& transfers) {
  Status begun = bridge_->begin(transfers, leaving_, coming_);
  leaving_.clear();
  coming_.clear();
  return begun;
}

Status Collector::cross_boards(uint64_t data_bytes) {
  Segment& segment = member_.segment();
  Board& own = segment.board(rank_, turn_);
  leave_for_hosts(reinterpret_cast<std::byte*>(&own), own.used(data_bytes));
  for (const uint32_t q : bridge_->far()) {
    // Whole, because another rank may be wrong about what comes.
    if (receives_for_host(q))
      coming_.push_back({q, reinterpret_cast<std::byte*>(&segment.board(q, turn_)), sizeof(Board)});
  }
  Bridge::Transfers boards(*bridge_);
  TN_TRY(begin_crossing(boards));
  return boards.finish();
}

Status Collector::cross_contributions(const Operation& o, const Part& part) {
  const bool reduces_slices = is_sum(o);
  const std::byte* const own =
      alone_ && reduces_slices ? o.send + part.first * o.width : stage(rank_, part.turn);
  const Slice mine(part.count, o.width, rank_, size_);
  const bool scatters = o.kind == TN_COMM_REDUCE_SCATTER || o.kind == TN_COMM_ALL_TO_ALL;
  const auto root = static_cast<uint32_t>(o.root);
  const bool gives = o.kind == TN_COMM_ALL_GATHER || (o.kind == TN_COMM_BROADCAST && root == rank_);
  if (gives) leave_for_hosts(own, part.stride);
  for (const uint32_t q : bridge_->far()) {
    std::byte* const theirs = stage(q, part.turn);
    if (reduces_slices) {
      const Slice slice(part.count, o.width, q, size_);
      leave(q, own + slice.begin * o.width, (slice.end - slice.begin) * o.width);
      come(q, theirs + mine.begin * o.width, (mine.end - mine.begin) * o.width);
    } else if (scatters) {
      leave(q, own + q * part.stride, part.stride);
      come(q, theirs + rank_ * part.stride, part.stride);
    } else if (receives_for_host(q) && (o.kind == TN_COMM_ALL_GATHER || root == q)) {
      come(q, theirs, part.stride);
    }
  }
  return begin_crossing(under_way_.emplace_back(*bridge_));
}

// All ranks want all slices; the root of a reduce alone wants them there.
Status Collector::cross_results(const Operation& o, const Part& part) {
  const Slice mine(part.count, o.width, rank_, size_);
  const std::byte* const own = sums_of(o, part, rank_) + mine.begin * o.width;
  const uint64_t own_bytes = (mine.end - mine.begin) * o.width;
  const auto root = static_cast<uint32_t>(o.root);
  const bool to_all = o.kind == TN_COMM_ALL_REDUCE;
  if (to_all) {
    leave_for_hosts(own, own_bytes);
  } else if (!member_.is_here(root)) {
    leave(root, own, own_bytes);
  }
  for (const uint32_t q : bridge_->far()) {
    if (!(to_all ? receives_for_host(q) : root == rank_)) continue;
    const Slice slice(part.count, o.width, q, size_);
    come(q, sums_of(o, part, q) + slice.begin * o.width, (slice.end - slice.begin) * o.width);
  }
  return begin_crossing(results_.emplace_back(*bridge_));
}

}  // namespace tenon::cpu::comm
