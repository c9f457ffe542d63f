// SPDX-License-Identifier: Apache-2.0
// part.cpp: parts in words, and whether two fit.
#include "part.hpp"

#include "kernels/ranks.hpp"

#include <tenon/author/comm_checks.hpp>

namespace tenon::cuda::comm {

using author::text;

namespace {

constexpr uint64_t bit_of(uint32_t number) noexcept { return uint64_t{1} << number; }

Status unequal(uint32_t rank, const Part& mine, uint32_t other, const Part& theirs) {
  return Status(TN_MISMATCH, text("rank ", other, " brings ", theirs.told(), " and rank ", rank, " brings ",
                                  mine.told(), ": every rank must submit the same"));
}

// What each expects of the other.
Status check_counts(uint32_t rank, const Part& mine, uint32_t other, const Part& theirs) {
  const auto differ = [](uint32_t from, uint64_t sent, uint32_t to, uint64_t wanted) {
    return Status(TN_MISMATCH, text("all_to_all_v: rank ", from, " sends ", sent, " elements to rank ", to,
                                    ", which expects ", wanted));
  };
  if (mine.send_counts[other] != theirs.recv_counts[rank])
    return differ(rank, mine.send_counts[other], other, theirs.recv_counts[rank]);
  if (theirs.send_counts[rank] != mine.recv_counts[other])
    return differ(other, theirs.send_counts[rank], rank, mine.recv_counts[other]);
  return {};
}

}  // namespace

bool Part::reduces() const noexcept { return author::reduces(kind); }

uint64_t Part::block_for(uint32_t reader) const noexcept {
  if (from == 0) return 0;
  if (kind == TN_COMM_REDUCE_SCATTER || kind == TN_COMM_ALL_TO_ALL) return from + reader * count * width;
  if (kind != TN_COMM_ALL_TO_ALL_V) return from;
  uint64_t before = 0;
  for (uint32_t r = 0; r < reader; ++r) before += send_counts[r];
  return from + before * width;
}

std::string Part::told() const {
  if (kind == TN_COMM_BARRIER) return "barrier";
  std::string out = author::kind_name(kind);
  if (reduces()) out += text(" ", author::reduce_name(reduce));
  if (kind != TN_COMM_ALL_TO_ALL_V) out += text(" of ", count);
  out += text(" ", author::dtype_name(dtype));
  return author::is_rooted(kind) ? text(out, ", root ", peer) : out;
}

void list_taken(tn_comm_limits& out) noexcept {
  for (uint32_t kind = TN_COMM_ALL_REDUCE; kind <= TN_COMM_BARRIER; ++kind) out.kind_mask |= bit_of(kind);
  for (uint32_t reduce = TN_REDUCE_SUM; reduce <= TN_REDUCE_PREMUL_SUM; ++reduce)
    out.reduce_mask |= bit_of(reduce);
#define TN_DTYPE(number, name, bits, class)            \
  if (bits % 8 == 0) out.dtype_mask |= bit_of(number); \
  if (reduces_ranks(number, TN_REDUCE_SUM)) out.reducible_mask |= bit_of(number);
#define TN_DTYPE_RESERVED(number, name, bits, class)
#include <tenon/dtypes.def>
}

Status check_fit(uint32_t rank, const Part& mine, uint32_t other, const Part& theirs) {
  const bool messages = mine.is_message() && theirs.is_message();
  const bool same =
      mine.dtype == theirs.dtype && mine.count == theirs.count &&
      (messages || (mine.kind == theirs.kind && mine.reduce == theirs.reduce && mine.peer == theirs.peer));
  if (!same) return unequal(rank, mine, other, theirs);
  return mine.kind == TN_COMM_ALL_TO_ALL_V ? check_counts(rank, mine, other, theirs) : Status();
}

}  // namespace tenon::cuda::comm
