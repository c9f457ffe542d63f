// SPDX-License-Identifier: Apache-2.0
// group.cpp: checking operations and resolving them.
//
// This is on the way of every small group, where copies of what was just written in smaller parts cost as much as the rest: an
// operation is filled where it stays.
// Invariant: sizes are computed without overflow, and an empty operation is as legal as any.
#include "group.hpp"

#include <tenon/author/names.hpp>
#include <tenon/author/text.hpp>

#include <cmath>

namespace tenon::cpu::comm {

using author::text;

namespace {

struct Bytes {
  std::byte* at = nullptr;
  uint64_t count = 0;
};

// Every operation begins as a copy of it, which is quicker than being zeroed.
const Operation blank{};

// One operation of a submit while it is looked at.
class Reader {
 public:
  Reader(const Maker& maker, const tn_comm_op& op, uint32_t index, Group& out)
      : maker_(maker), op_(op), index_(index), out_(out), width_(width_of(op.dtype)) {}

  Status read() {
    const Result<author::CommSides> sides = author::comm_sides(op_, index_, maker_.rank, maker_.size);
    if (!sides.ok()) return Status(Error(sides.error()));
    switch (op_.kind) {
      case TN_COMM_SEND:
      case TN_COMM_RECV:
        return read_letter(*sides);
      case TN_COMM_ALL_TO_ALL_V:
        return read_letters(*sides);
      default:
        return read_collective(*sides);
    }
  }

 private:
  Status refuse(int32_t code, const std::string& why) const {
    return Status(code, text("operation ", index_, " (", kind_name(op_.kind), "): ", why));
  }

  // Where `bytes` of a span lie; nowhere when there are none.
  Bytes side(const tn_span& span, uint64_t bytes) const {
    return {bytes == 0 ? nullptr : maker_.address_of(span), bytes};
  }
  // Sets what is sent aside; its bytes are read when the group runs.
  std::byte* set_aside(const Bytes& send) {
    out_.copies.push_back({std::make_unique<std::byte[]>(send.count), send.at, send.count});
    return out_.copies.back().to.get();
  }
  static Window personal(const std::byte* at) {
    return {.kind = Window::personal, .address = reinterpret_cast<uint64_t>(at)};
  }

  Status read_letter(const author::CommSides& sides) {
    const bool sends = op_.kind == TN_COMM_SEND;
    const tn_span& span = sends ? op_.send : op_.recv;
    const Bytes bytes = side(span, sends ? sides.send : sides.recv);
    Letter letter{.sends = sends,
                  .peer = static_cast<uint32_t>(op_.peer),
                  .dtype = op_.dtype,
                  .count = op_.count,
                  .bytes = bytes.count,
                  .data = bytes.at};
    if (sends && bytes.count != 0) maker_.find_window(span, letter.window);
    out_.letters.push_back(letter);
    return {};
  }

  // A message to and from each rank; the card says that the group has one.
  Status read_letters(const author::CommSides& sides) {
    const std::span sends(op_.send_counts, maker_.size), receives(op_.recv_counts, maker_.size);
    const Bytes send = side(op_.send, sides.send), recv = side(op_.recv, sides.recv);
    const bool in_place = !author::sides_apart(sides, send.at, recv.at);
    std::byte* from = in_place ? set_aside(send) : send.at;
    Window window = in_place && send.count != 0 ? personal(from) : Window{};
    if (!in_place && send.count != 0) maker_.find_window(op_.send, window);
    std::byte* to = recv.at;
    for (uint32_t q = 0; q < maker_.size; ++q) {
      const uint64_t out = sends[q] * width_, in = receives[q] * width_;
      out_.letters.push_back({true, q, op_.dtype, sends[q], out, from, out == 0 ? Window{} : window});
      out_.letters.push_back({false, q, op_.dtype, receives[q], in, to, {}});
      from += out;
      to += in;
      window.offset += out;
      window.address += out;
    }
    (void)TN_TRY(add());
    return {};
  }

  Status read_collective(const author::CommSides& sides) {
    Operation& operation = *TN_TRY(add());
    operation.width = width_;
    if (op_.kind == TN_COMM_BARRIER) {
      operation.dtype = 0;
      return {};
    }
    operation.count = op_.count;
    if (is_rooted(op_.kind)) operation.root = op_.peer;
    if (reduces(op_.kind)) TN_TRY(read_reduction(operation));
    return read_sides(operation, sides);
  }

  Status read_reduction(Operation& operation) const {
    operation.reduce = op_.reduce;
    if (reduce_row(op_.dtype, op_.reduce) == nullptr)
      return refuse(TN_UNSUPPORTED, text(reduce_name(op_.reduce), " of ", author::dtype_name(op_.dtype),
                                         " has no meaning here: cast first"));
    if (op_.reduce != TN_REDUCE_PREMUL_SUM) return {};
    operation.scalar = op_.scalar;
    if (op_.factor.bytes != 0) {
      if (op_.factor.bytes < width_)
        return refuse(TN_INVALID, text("factor has ", op_.factor.bytes, " bytes, and one element of ",
                                       author::dtype_name(op_.dtype), " has ", width_));
      operation.factor = maker_.address_of(op_.factor);
    } else if (is_whole(op_.dtype) &&
               (op_.scalar != std::trunc(op_.scalar) || std::fabs(op_.scalar) > 0x1p53)) {
      return refuse(TN_INVALID, text("a factor of ", author::dtype_name(op_.dtype),
                                     " must be a whole number of at most 2^53; ", op_.scalar, " is none"));
    }
    return {};
  }

  Status read_sides(Operation& operation, const author::CommSides& sides) {
    const Bytes send = side(op_.send, sides.send), recv = side(op_.recv, sides.recv);
    TN_TRY(author::check_in_place(op_, index_, sides, maker_.rank, send.at, recv.at));
    const bool swaps = op_.kind == TN_COMM_ALL_TO_ALL && send.at == recv.at && send.count != 0;
    operation.send = swaps ? set_aside(send) : send.at;
    operation.recv = recv.at;
    if (swaps) operation.send_at = personal(operation.send);
    if (!swaps && send.count != 0) maker_.find_window(op_.send, operation.send_at);
    if (recv.count != 0) maker_.find_window(op_.recv, operation.recv_at);
    return {};
  }

  // One more, of this kind and type.
  Result<Operation*> add() {
    if (out_.operations.size() == Board::most_cards)
      return refuse(TN_UNSUPPORTED, text("more than ", Board::most_cards,
                                         " collectives in one group: submit them as several groups"));
    Operation& operation = out_.operations.emplace_back(blank);
    operation.kind = op_.kind;
    operation.dtype = op_.dtype;
    return &operation;
  }

  const Maker& maker_;
  const tn_comm_op& op_;
  const uint32_t index_;
  Group& out_;
  const uint64_t width_;
};

}  // namespace

Status make_group(const Maker& maker, std::span<const tn_comm_op> ops, Group& out) {
  out.clear();
  for (uint32_t i = 0; i < ops.size(); ++i) TN_TRY(Reader(maker, ops[i], i, out).read());
  return {};
}

}  // namespace tenon::cpu::comm
