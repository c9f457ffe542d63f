// SPDX-License-Identifier: Apache-2.0
// brief.cpp: one sum of a few bytes, or a barrier, from its announcement to its end: a loss that is averaged, a flag on which ranks
// agree.
//
// A submit of such a group takes less than the others need to hear of it. What other groups are given in case that they wait, an
// operation, windows and a way, costs more than that, and so is left out.
// Invariant: the other ranks cannot tell it from any group that lies beside its step; what does not end here goes on as one.
#include "collect.hpp"

#include <tenon/author/comm_checks.hpp>

#include <algorithm>
#include <cstring>

namespace tenon::cpu::comm {

std::optional<Brief> Brief::of(const tn_comm_op& op, std::byte* (*address_of)(const tn_span& span)) noexcept {
  Brief out;
  out.terms.kind = op.kind;
  if (op.kind == TN_COMM_BARRIER) return out;
  const uint64_t width = width_of(op.dtype);
  if (op.kind != TN_COMM_ALL_REDUCE || op.reduce == TN_REDUCE_PREMUL_SUM || op.count > Step::most_bytes)
    return std::nullopt;
  out.bytes = op.count * width;
  if (out.bytes > std::min({Step::most_bytes, op.send.bytes, op.recv.bytes})) return std::nullopt;
  out.row = reduce_row(op.dtype, op.reduce);
  out.send = address_of(op.send);
  out.recv = address_of(op.recv);
  if (out.row == nullptr ||
      (out.send != out.recv && !author::sides_apart({out.bytes, out.bytes}, out.send, out.recv)))
    return std::nullopt;
  out.terms.dtype = op.dtype;
  out.terms.reduce = op.reduce;
  out.terms.count = op.count;
  return out;
}

void Collector::begin(const Brief& brief, uint64_t sequence) {
  phase_ = 0;
  brought_ = brief.bytes;
  member_.doing(sequence, brief.terms.kind);
  Step& step = member_.next_step();
  step.sequence = sequence;
  step.terms = brief.terms;
  if (brief.bytes != 0) std::memcpy(step.data, brief.send, brief.bytes);
  member_.post(true);
}

bool Collector::end(const Brief& brief) {
  driver::prefetch_to_write(&member_.next_step());
  const Step& own = member_.step_of(rank_);
  for (uint32_t q = 0; q < size_; ++q) {
    const Step& step = member_.step_of(q);
    if (step.noted == 0 || step.sequence != own.sequence || !alike(step.terms, own.terms)) return false;
    sources_[q] = step.data;
  }
  atlas_.forget_freed();
  if (brief.bytes != 0) {
    const Row row{.sources = sources_.data(),
                  .factors = nullptr,
                  .ranks = size_,
                  .mean = brief.terms.reduce == TN_REDUCE_AVG,
                  .outs = &brief.recv,
                  .out_count = 1,
                  .count = brief.terms.count};
    brief.row(&row);
  }
  ++turn_;
  return true;
}

}  // namespace tenon::cpu::comm
