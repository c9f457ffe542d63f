// SPDX-License-Identifier: Apache-2.0
// legs.cpp: see legs.hpp.
#include "comm/legs.hpp"

namespace tenon::comm {
namespace {

// `count` elements from `first` on.
tn_span part(tn_span span, uint64_t width, uint64_t first, uint64_t count) noexcept {
  span.offset += first * width;
  span.bytes = count * width;
  return span;
}

// A step of `op` on part of its elements.
CommOp step(const CommOp& op, uint32_t kind, const tn_span& send, const tn_span& recv, uint64_t count,
            uint32_t root = 0) noexcept {
  CommOp out = op;
  out.abi.kind = kind;
  out.abi.send = send;
  out.abi.recv = recv;
  out.abi.count = count;
  out.abi.peer = static_cast<int32_t>(root);
  return out;
}

// The step that takes each rank's contribution.
CommOp first_step(CommOp out, const Seat& seat) noexcept {
  if (out.abi.reduce != TN_REDUCE_AVG) return out;
  out.abi.reduce = TN_REDUCE_PREMUL_SUM;
  out.abi.scalar = 1.0 / seat.size;
  out.abi.factor = {};
  return out;
}

// The steps that join what was reduced already.
CommOp later_step(CommOp out) noexcept {
  if (out.abi.reduce == TN_REDUCE_AVG || out.abi.reduce == TN_REDUCE_PREMUL_SUM)
    out.abi.reduce = TN_REDUCE_SUM;
  out.abi.scalar = 1;
  out.abi.factor = {};
  return out;
}

CommOp moved(CommOp out) noexcept {
  out = later_step(out);
  out.abi.reduce = 0;
  return out;
}

void add_leaders(const CommOp& op, const Seat& seat, Legs& legs) {
  const uint64_t width = bits(static_cast<DType>(op.abi.dtype)) / 8, count = op.abi.count;
  const tn_span send = part(op.abi.send, width, 0, count), recv = part(op.abi.recv, width, 0, count);
  const uint32_t kind = seat.reduces ? TN_COMM_REDUCE : TN_COMM_ALL_REDUCE;
  legs.group.push_back(first_step(step(op, kind, send, recv, count, seat.leader), seat));
  if (seat.member == seat.leader)
    legs.leaders.push_back(later_step(step(op, TN_COMM_ALL_REDUCE, recv, recv, count)));
  legs.group_again.push_back(moved(step(op, TN_COMM_BROADCAST, recv, recv, count, seat.leader)));
}

void add_shards(const CommOp& op, const Seat& seat, Legs& legs) {
  const uint64_t width = bits(static_cast<DType>(op.abi.dtype)) / 8;
  const uint64_t each = op.abi.count / seat.members, even = each * seat.members, rest = op.abi.count - even;
  const tn_span send = part(op.abi.send, width, 0, even), recv = part(op.abi.recv, width, 0, even);
  const tn_span own = part(op.abi.recv, width, each * seat.member, each);
  const tn_span send_rest = part(op.abi.send, width, even, rest),
                recv_rest = part(op.abi.recv, width, even, rest);
  legs.group.push_back(first_step(step(op, TN_COMM_REDUCE_SCATTER, send, own, each), seat));
  legs.shards.push_back(later_step(step(op, TN_COMM_ALL_REDUCE, own, own, each)));
  legs.group_again.push_back(moved(step(op, TN_COMM_ALL_GATHER, own, recv, each)));
  if (rest == 0) return;
  legs.group.push_back(first_step(step(op, TN_COMM_REDUCE, send_rest, recv_rest, rest), seat));
  if (seat.member == 0)
    legs.shards.push_back(later_step(step(op, TN_COMM_ALL_REDUCE, recv_rest, recv_rest, rest)));
  legs.group_again.push_back(moved(step(op, TN_COMM_BROADCAST, recv_rest, recv_rest, rest)));
}

}  // namespace

void add_legs(const CommOp& op, Route route, const Seat& seat, Legs& legs) {
  switch (route) {
    case Route::flat:
      legs.flat.push_back(op);
      return;
    case Route::leaders:
      add_leaders(op, seat, legs);
      return;
    case Route::sharded:
      add_shards(op, seat, legs);
      return;
  }
}

}  // namespace tenon::comm
