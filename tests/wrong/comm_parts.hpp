// SPDX-License-Identifier: Apache-2.0
// comm_parts.hpp: a split for the cpu plugin, which has none: every rank gathers colors, keys and an id of each rank.
//
// Invariant: the members of a part are ordered as `order` says, and its first one's id is the part's.
#pragma once

#include "wrong_comm.hpp"

#include <algorithm>

namespace wrong {

struct Card {
  int32_t color, key;
  uint32_t rank;
};
using Order = bool (*)(const Card& a, const Card& b);

// What every rank brings, in order of rank.
inline int32_t gather(tn_comm* comm, const Seat& seat, const std::vector<std::byte>& mine,
                      std::vector<std::byte>& all, tn_error* error) {
  const tn_stream_options options{sizeof(tn_stream_options), 0, "split", nullptr};
  tn_stream* stream = nullptr;
  int32_t code = right().stream.create(seat.device, &options, &stream, error);
  if (code != TN_OK) return code;
  tn_comm_op op{};
  op.kind = TN_COMM_ALL_GATHER;
  op.dtype = TN_DTYPE_u8;
  op.count = mine.size();
  op.send = scratch(mine.size());
  op.recv = scratch(mine.size() * seat.size);
  std::copy(mine.begin(), mine.end(), address_of(op.send));
  uint64_t value = 0;
  code = right().comm.submit(comm, stream, &op, 1, error);
  if (code == TN_OK) code = right().stream.record(stream, 0, &value, error);
  if (code == TN_OK) code = right().stream.sync(stream, value, TN_TIMEOUT_NEVER, error);
  right().stream.destroy(stream, TN_DESTROY_COMPLETE, nullptr);
  all.assign(address_of(op.recv), address_of(op.recv) + op.recv.bytes);
  return code;
}

inline int32_t split(tn_comm* comm, int32_t color, int32_t key, const tn_comm_options* options, tn_comm** out,
                     tn_error* error, Order order) {
  *out = nullptr;
  const Seat seat = seat_of(comm);
  uint64_t id_bytes = 0;
  int32_t code = right().comm.id_bytes(seat.device, &id_bytes, error);
  std::vector<std::byte> mine(sizeof(Card) + id_bytes), all;
  const Card card{color, key, seat.rank};
  std::memcpy(mine.data(), &card, sizeof card);
  if (code == TN_OK) code = right().comm.make_id(seat.device, mine.data() + sizeof card, id_bytes, error);
  if (code == TN_OK) code = gather(comm, seat, mine, all, error);
  if (code != TN_OK || color < 0) return code;
  std::vector<Card> members;
  for (uint32_t q = 0; q < seat.size; ++q) {
    Card other;
    std::memcpy(&other, all.data() + q * mine.size(), sizeof other);
    if (other.color == color) members.push_back(other);
  }
  std::stable_sort(members.begin(), members.end(), order);
  uint32_t rank = 0;
  while (members[rank].rank != seat.rank) ++rank;
  return create_known(seat.device, rank, static_cast<uint32_t>(members.size()),
                      all.data() + members[0].rank * mine.size() + sizeof(Card), id_bytes, options, out,
                      error);
}

}  // namespace wrong
