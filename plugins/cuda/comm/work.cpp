// SPDX-License-Identifier: Apache-2.0
// work.cpp: shares as the parameters of kernels.
#include "work.hpp"

#include "kernels/device.hpp"
#include "kernels/ranks.hpp"

#include <algorithm>

namespace tenon::cuda::comm {

namespace {

constexpr uint64_t line = 128;  // bytes; slices begin at a multiple, so that few lines are written by two

// The slice of `count` elements that a member works on.
std::pair<uint64_t, uint64_t> slice_of(const Part& part, const Turn& turn) {
  const uint64_t per_line = line / part.width, members = turn.lane->size();
  const uint64_t even = (part.count + members - 1) / members,
                 slice = (even + per_line - 1) / per_line * per_line;
  const uint64_t first = std::min(turn.member * slice, part.count);
  return {first, std::min(slice, part.count - first)};
}

Status enqueue_reduction(const Strand& strand, const Part& part, const Turn& turn, CUfunction function) {
  RanksParameters wanted{};
  wanted.slot = turn.lane->slot(turn.index);
  wanted.index = turn.index;
  wanted.members = turn.lane->size();
  wanted.me = turn.member;
  wanted.count = part.count;
  wanted.out_begin = turn.member;
  if (part.kind != TN_COMM_REDUCE_SCATTER) std::tie(wanted.first, wanted.count) = slice_of(part, turn);
  if (part.kind == TN_COMM_REDUCE) wanted.out_begin = part.peer;
  if (part.kind == TN_COMM_ALL_REDUCE) wanted.out_begin = 0;
  wanted.out_end = part.kind == TN_COMM_ALL_REDUCE ? wanted.members : wanted.out_begin + 1;
  if (wanted.count == 0) return {};
  return strand.launch(function, wanted.count * part.width / 16 + 1, &wanted);
}

// Where what each member has goes, and how much of it.
PullParameters pulls_of(const Part& part, const Turn& turn) {
  PullParameters out{};
  out.slot = turn.lane->slot(turn.index);
  out.index = turn.index;
  out.members = turn.lane->size();
  out.me = turn.member;
  uint64_t to = part.to;
  for (uint32_t m = 0; m < out.members; ++m) {
    const bool rooted = part.kind == TN_COMM_BROADCAST || part.kind == TN_COMM_RECV;
    const uint32_t root = part.kind == TN_COMM_RECV ? 0 : part.peer;
    uint64_t count = part.kind == TN_COMM_ALL_TO_ALL_V ? part.recv_counts[m] : part.count;
    if (rooted && m != root) count = 0;
    out.to[m] = to;
    out.bytes[m] = count * part.width;
    to += out.bytes[m];
  }
  return out;
}

}  // namespace

bool has_work(const Part& part) noexcept {
  return part.kind != TN_COMM_BARRIER && part.kind != TN_COMM_SEND &&
         (part.reduces() || part.recv_bytes != 0);
}

Status enqueue_work(const Strand& strand, const Part& part, const Turn& turn, CUfunction function) {
  if (part.reduces()) return part.count == 0 ? Status() : enqueue_reduction(strand, part, turn, function);
  PullParameters pulls = pulls_of(part, turn);
  return strand.launch(function, part.recv_bytes / 16 + 1, &pulls);
}

}  // namespace tenon::cuda::comm
