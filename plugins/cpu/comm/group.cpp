// SPDX-License-Identifier: Apache-2.0
// group.cpp: checking operations and resolving them.
//
// Invariant: sizes are computed without overflow, and an empty operation is as legal as any.
#include "group.hpp"

#include <tenon/author/names.hpp>
#include <tenon/author/text.hpp>

#include <cmath>
#include <functional>
#include <numeric>

namespace tenon::cpu::comm {

using author::text;

namespace {

struct Bytes {
  std::byte* at = nullptr;
  uint64_t count = 0;
};

// One operation of a submit while it is looked at.
class Reader {
 public:
  Reader(const Maker& maker, const tn_comm_op& op, uint32_t index, Group& out)
      : maker_(maker), op_(op), index_(index), out_(out), width_(width_of(op.dtype)) {}

  Status read() {
    switch (op_.kind) {
      case TN_COMM_SEND:
      case TN_COMM_RECV:
        return read_letter();
      case TN_COMM_ALL_TO_ALL_V:
        return read_letters();
      default:
        return read_collective();
    }
  }

 private:
  Status refuse(int32_t code, const std::string& why) const {
    return Status(code, text("operation ", index_, " (", kind_name(op_.kind), "): ", why));
  }

  // The address of `elements`, which `span` must hold.
  Result<Bytes> side(const tn_span& span, uint64_t elements, const char* what) const {
    uint64_t bytes = 0;
    if (__builtin_mul_overflow(elements, width_, &bytes) || bytes > span.bytes) {
      return refuse(TN_INVALID, text(what, " has ", span.bytes, " bytes, and ", elements, " elements of ",
                                     author::dtype_name(op_.dtype), " are more"));
    }
    return Bytes{bytes == 0 ? nullptr : maker_.address_of(span), bytes};
  }
  Result<uint64_t> of_all(uint64_t count) const {
    uint64_t all = 0;
    if (__builtin_mul_overflow(count, uint64_t{maker_.size}, &all))
      return refuse(TN_INVALID, text(count, " elements for each of ", maker_.size, " ranks are too many"));
    return all;
  }
  static bool apart(const Bytes& send, const Bytes& recv) {
    const std::less<const std::byte*> before;
    return send.count == 0 || recv.count == 0 || !before(recv.at, send.at + send.count) ||
           !before(send.at, recv.at + recv.count);
  }
  // Two sides are apart, or `recv` is exactly where in-place operation has it.
  Status check_overlap(const Bytes& send, const Bytes& recv, const std::byte* in_place) const {
    if (recv.at == in_place || apart(send, recv)) return {};
    return refuse(TN_INVALID,
                  "send and recv overlap, and not as an operation in place does: use one buffer, with "
                  "all_gather's send and reduce_scatter's recv at the rank's own block, or two");
  }
  // Sets what is sent aside; its bytes are read when the group runs.
  std::byte* set_aside(const Bytes& send) {
    out_.copies.push_back({std::make_unique<std::byte[]>(send.count), send.at, send.count});
    return out_.copies.back().to.get();
  }
  static Window personal(const std::byte* at) {
    return {.kind = Window::personal, .address = reinterpret_cast<uint64_t>(at)};
  }

  Status read_letter() {
    const bool sends = op_.kind == TN_COMM_SEND;
    const tn_span& span = sends ? op_.send : op_.recv;
    const Bytes bytes = TN_TRY(side(span, op_.count, sends ? "send" : "recv"));
    Letter letter{.sends = sends,
                  .peer = static_cast<uint32_t>(op_.peer),
                  .dtype = op_.dtype,
                  .count = op_.count,
                  .bytes = bytes.count,
                  .data = bytes.at};
    if (sends && bytes.count != 0) letter.window = maker_.window_of(span);
    out_.letters.push_back(letter);
    return {};
  }

  // A message to and from each rank; the card says that the group has one.
  Status read_letters() {
    if (op_.send_counts == nullptr || op_.recv_counts == nullptr)
      return refuse(TN_INVALID, "send_counts or recv_counts is NULL: give one count for each rank");
    const std::span sends(op_.send_counts, maker_.size), receives(op_.recv_counts, maker_.size);
    const Bytes send = TN_TRY(side(op_.send, TN_TRY(total(sends)), "send"));
    const Bytes recv = TN_TRY(side(op_.recv, TN_TRY(total(receives)), "recv"));
    const bool in_place = !apart(send, recv);
    std::byte* from = in_place ? set_aside(send) : send.at;
    Window window = send.count == 0 ? Window{} : in_place ? personal(from) : maker_.window_of(op_.send);
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
    return add({.kind = op_.kind, .dtype = op_.dtype});
  }
  Result<uint64_t> total(std::span<const uint64_t> counts) const {
    uint64_t sum = 0;
    for (const uint64_t count : counts) {
      if (__builtin_add_overflow(sum, count, &sum)) return refuse(TN_INVALID, "the counts are too many");
    }
    return sum;
  }

  Status read_collective() {
    Operation operation{.kind = op_.kind, .dtype = op_.dtype, .count = op_.count, .width = width_};
    if (op_.kind == TN_COMM_BARRIER) {
      operation.dtype = 0;
      operation.count = 0;
      return add(std::move(operation));
    }
    if (is_rooted(op_.kind)) operation.root = op_.peer;
    if (reduces(op_.kind)) TN_TRY(read_reduction(operation));
    TN_TRY(read_sides(operation));
    return add(std::move(operation));
  }

  Status read_reduction(Operation& operation) const {
    operation.reduce = op_.reduce;
    if (reduce_row(op_.dtype, op_.reduce) == nullptr)
      return refuse(TN_UNSUPPORTED, text(reduce_name(op_.reduce), " of ", author::dtype_name(op_.dtype),
                                         " has no meaning here: cast first"));
    if (op_.reduce != TN_REDUCE_PREMUL_SUM) return {};
    operation.scalar = op_.scalar;
    if (op_.factor.bytes != 0) {
      operation.factor = TN_TRY(side(op_.factor, 1, "factor"))
      .at;
    } else if (is_whole(op_.dtype) &&
               (op_.scalar != std::trunc(op_.scalar) || std::fabs(op_.scalar) > 0x1p53)) {
      return refuse(TN_INVALID, text("a factor of ", author::dtype_name(op_.dtype),
                                     " must be a whole number of at most 2^53; ", op_.scalar, " is none"));
    }
    return {};
  }

  Status read_sides(Operation& operation) {
    const bool at_root = static_cast<uint32_t>(op_.peer) == maker_.rank;
    const bool sends = op_.kind != TN_COMM_BROADCAST || at_root;
    const bool receives = op_.kind != TN_COMM_REDUCE || at_root;
    const bool scatters = op_.kind == TN_COMM_REDUCE_SCATTER || op_.kind == TN_COMM_ALL_TO_ALL;
    const bool gathers = op_.kind == TN_COMM_ALL_GATHER || op_.kind == TN_COMM_ALL_TO_ALL;
    const uint64_t all = TN_TRY(of_all(op_.count));
    Bytes send, recv;
    if (sends) send = TN_TRY(side(op_.send, scatters ? all : op_.count, "send"));
    if (receives) recv = TN_TRY(side(op_.recv, gathers ? all : op_.count, "recv"));
    const uint64_t own_block = maker_.rank * op_.count * width_;
    const bool swaps = op_.kind == TN_COMM_ALL_TO_ALL && send.at == recv.at && send.count != 0;
    TN_TRY(check_overlap(send, recv,
                         op_.kind == TN_COMM_ALL_GATHER       ? send.at - own_block
                         : op_.kind == TN_COMM_REDUCE_SCATTER ? send.at + own_block
                                                              : send.at));
    operation.send = swaps ? set_aside(send) : send.at;
    operation.recv = recv.at;
    if (send.count != 0) operation.send_at = swaps ? personal(operation.send) : maker_.window_of(op_.send);
    if (recv.count != 0) operation.recv_at = maker_.window_of(op_.recv);
    return {};
  }

  Status add(Operation operation) {
    if (out_.operations.size() == Board::most_cards)
      return refuse(TN_UNSUPPORTED, text("more than ", Board::most_cards, " collectives in one group"));
    out_.operations.push_back(std::move(operation));
    return {};
  }

  const Maker& maker_;
  const tn_comm_op& op_;
  const uint32_t index_;
  Group& out_;
  const uint64_t width_;
};

}  // namespace

const char* kind_name(uint32_t kind) noexcept {
  static constexpr const char* names[] = {"?",          "all_reduce",     "broadcast",  "reduce",
                                          "all_gather", "reduce_scatter", "all_to_all", "all_to_all_v",
                                          "send",       "recv",           "barrier"};
  return kind < std::size(names) ? names[kind] : names[0];
}

const char* reduce_name(uint32_t reduce) noexcept {
  static constexpr const char* names[] = {"?", "sum", "prod", "min", "max", "avg", "premul_sum"};
  return reduce < std::size(names) ? names[reduce] : names[0];
}

bool reduces(uint32_t kind) noexcept {
  return kind == TN_COMM_ALL_REDUCE || kind == TN_COMM_REDUCE || kind == TN_COMM_REDUCE_SCATTER;
}
bool is_rooted(uint32_t kind) noexcept { return kind == TN_COMM_BROADCAST || kind == TN_COMM_REDUCE; }

Status make_group(const Maker& maker, std::span<const tn_comm_op> ops, Group& out) {
  out.clear();
  for (uint32_t i = 0; i < ops.size(); ++i) TN_TRY(Reader(maker, ops[i], i, out).read());
  return {};
}

}  // namespace tenon::cpu::comm
