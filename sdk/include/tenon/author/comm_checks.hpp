// SPDX-License-Identifier: Apache-2.0
// comm_checks.hpp: what an operation of a communicator means for one rank: how many bytes it brings and gets, where its two
// sides may lie.
//
// For authors of communicators; the framework has refused kinds, types, reductions and roots that the limits do not list.
// Invariant: sizes are computed without overflow, and an empty operation is as legal as any.
#pragma once

#include <tenon/comm.h>
#include <tenon/author/names.hpp>
#include <tenon/author/text.hpp>
#include <tenon/result.hpp>

#include <cstddef>
#include <functional>
#include <iterator>
#include <span>

namespace tenon::author {

// "all_reduce" for TN_COMM_ALL_REDUCE, "sum" for TN_REDUCE_SUM. [any-thread; does not block; cannot fail]
constexpr const char* kind_name(uint32_t kind) noexcept {
  constexpr const char* names[] = {"?",          "all_reduce",     "broadcast",  "reduce",
                                   "all_gather", "reduce_scatter", "all_to_all", "all_to_all_v",
                                   "send",       "recv",           "barrier"};
  return kind < std::size(names) ? names[kind] : names[0];
}
constexpr const char* reduce_name(uint32_t reduce) noexcept {
  constexpr const char* names[] = {"?", "sum", "prod", "min", "max", "avg", "premul_sum"};
  return reduce < std::size(names) ? names[reduce] : names[0];
}
constexpr bool reduces(uint32_t kind) noexcept {
  return kind == TN_COMM_ALL_REDUCE || kind == TN_COMM_REDUCE || kind == TN_COMM_REDUCE_SCATTER;
}
constexpr bool is_rooted(uint32_t kind) noexcept {
  return kind == TN_COMM_BROADCAST || kind == TN_COMM_REDUCE;
}

// Bytes that a rank brings and gets; 0 for a side that it does not have.
struct CommSides {
  uint64_t send = 0, recv = 0;
};

namespace detail {

[[gnu::cold, gnu::noinline]] inline Status refused(const tn_comm_op& op, uint32_t index,
                                                   const std::string& why) {
  return Status(TN_INVALID, text("operation ", index, " (", kind_name(op.kind), "): ", why));
}

[[gnu::cold, gnu::noinline]] inline Status too_short(const tn_comm_op& op, uint32_t index,
                                                     const tn_span& span, uint64_t elements,
                                                     const char* what) {
  return refused(op, index,
                 text(what, " has ", span.bytes, " bytes, and ", elements, " elements of ",
                      dtype_name(op.dtype), " are more"));
}

// The bytes of `elements`, which `span` must hold.
inline Result<uint64_t> held(const tn_comm_op& op, uint32_t index, const tn_span& span, uint64_t elements,
                             const char* what) {
  uint64_t bytes = 0;
  if (!__builtin_mul_overflow(elements, uint64_t{dtype_bits(op.dtype)} / 8, &bytes) && bytes <= span.bytes)
    return bytes;
  return too_short(op, index, span, elements, what);
}

inline Result<uint64_t> total(const tn_comm_op& op, uint32_t index, std::span<const uint64_t> counts) {
  uint64_t sum = 0;
  for (const uint64_t count : counts) {
    if (__builtin_add_overflow(sum, count, &sum)) return refused(op, index, "the counts are too many");
  }
  return sum;
}

}  // namespace detail

// What `rank` of `size` brings and gets by operation `index` of a submit. TN_INVALID when a span is too short or counts are missing.
// [any-thread; does not block; may fail]
inline Result<CommSides> comm_sides(const tn_comm_op& op, uint32_t index, uint32_t rank, uint32_t size) {
  CommSides out;
  if (op.kind == TN_COMM_BARRIER) return out;
  if (op.kind == TN_COMM_ALL_TO_ALL_V) {
    if (op.send_counts == nullptr || op.recv_counts == nullptr)
      return detail::refused(op, index, "send_counts or recv_counts is NULL: give one count for each rank");
    const uint64_t out_of = TN_TRY(detail::total(op, index, {op.send_counts, size}));
    const uint64_t into = TN_TRY(detail::total(op, index, {op.recv_counts, size}));
    out.send = TN_TRY(detail::held(op, index, op.send, out_of, "send"));
    out.recv = TN_TRY(detail::held(op, index, op.recv, into, "recv"));
    return out;
  }
  uint64_t all = 0;
  if (__builtin_mul_overflow(op.count, uint64_t{size}, &all))
    return detail::refused(op, index, text(op.count, " elements for each of ", size, " ranks are too many"));
  const bool at_root = op.peer >= 0 && static_cast<uint32_t>(op.peer) == rank;
  const bool sends = op.kind != TN_COMM_RECV && (op.kind != TN_COMM_BROADCAST || at_root);
  const bool gets = op.kind != TN_COMM_SEND && (op.kind != TN_COMM_REDUCE || at_root);
  const bool to_each = op.kind == TN_COMM_REDUCE_SCATTER || op.kind == TN_COMM_ALL_TO_ALL;
  const bool from_each = op.kind == TN_COMM_ALL_GATHER || op.kind == TN_COMM_ALL_TO_ALL;
  if (sends) out.send = TN_TRY(detail::held(op, index, op.send, to_each ? all : op.count, "send"));
  if (gets) out.recv = TN_TRY(detail::held(op, index, op.recv, from_each ? all : op.count, "recv"));
  return out;
}

// Whether the two sides share no byte.
inline bool sides_apart(const CommSides& bytes, const std::byte* send, const std::byte* recv) noexcept {
  const std::less<const std::byte*> before;
  return bytes.send == 0 || bytes.recv == 0 || !before(recv, send + bytes.send) ||
         !before(send, recv + bytes.recv);
}

// Two sides are apart, or lie as an operation in place has them; those of all_to_all_v may lie anywhere. TN_INVALID.
// [any-thread; does not block; may fail]
inline Status check_in_place(const tn_comm_op& op, uint32_t index, const CommSides& bytes, uint32_t rank,
                             const std::byte* send, const std::byte* recv) {
  if (op.kind == TN_COMM_ALL_TO_ALL_V || sides_apart(bytes, send, recv)) return {};
  const uint64_t own_block = op.kind == TN_COMM_ALL_GATHER       ? rank * bytes.send
                             : op.kind == TN_COMM_REDUCE_SCATTER ? rank * bytes.recv
                                                                 : 0;
  if (op.kind == TN_COMM_ALL_GATHER ? recv + own_block == send : send + own_block == recv) return {};
  return detail::refused(op, index,
                         "send and recv overlap, and not as an operation in place does: use one buffer, with "
                         "all_gather's send and reduce_scatter's recv at the rank's own block, or two");
}

}  // namespace tenon::author
