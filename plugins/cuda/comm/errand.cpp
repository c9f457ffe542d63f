// SPDX-License-Identifier: Apache-2.0
// errand.cpp: the order in which a group's waits, kernels and words are enqueued.
#include "errand.hpp"

#include <algorithm>
#include <bit>

namespace tenon::cuda::comm {

namespace {

// Operations of one lane, in order.
using Chain = std::vector<size_t>;

// What has to wait for others' "ready", by lane.
std::vector<Chain> chains_of(const Errand& errand) {
  std::vector<Chain> out;
  for (size_t i = 0; i < errand.parts.size(); ++i) {
    if (errand.parts[i].kind == TN_COMM_SEND) continue;
    const auto same = [&](const Chain& chain) { return errand.turns[chain[0]].lane == errand.turns[i].lane; };
    const auto found = std::ranges::find_if(out, same);
    if (found == out.end())
      out.push_back({i});
    else
      found->push_back(i);
  }
  return out;
}

Status enqueue_chain(const Errand& errand, const Chain& chain, const Strand& strand) {
  for (const size_t i : chain) {
    const Turn& turn = errand.turns[i];
    for (uint32_t m = 0; m < turn.lane->size(); ++m)
      if (m != turn.member) TN_TRY(strand.wait(turn.lane->ready(turn.index, m), turn.index));
    if (has_work(errand.parts[i])) TN_TRY(enqueue_work(strand, errand.parts[i], turn, errand.functions[i]));
    TN_TRY(strand.write(turn.lane->done(turn.index, turn.member), turn.index));
  }
  return {};
}

Status say_ready(const Errand& errand, const Strand& trunk) {
  for (size_t i = 0; i < errand.parts.size(); ++i) {
    const Turn& turn = errand.turns[i];
    TN_TRY(trunk.write(turn.lane->ready(turn.index, turn.member), turn.index));
    if (errand.parts[i].kind == TN_COMM_SEND)
      TN_TRY(trunk.write(turn.lane->done(turn.index, turn.member), turn.index));
  }
  return {};
}

// Nobody touches this rank's memory any more.
Status await_done(const Errand& errand, const Strand& trunk) {
  for (size_t i = 0; i < errand.parts.size(); ++i) {
    const Turn& turn = errand.turns[i];
    if (errand.parts[i].kind == TN_COMM_BARRIER) continue;
    for (uint32_t m = 0; m < turn.lane->size(); ++m)
      if (m != turn.member) TN_TRY(trunk.wait(turn.lane->done(turn.index, m), turn.index));
  }
  return {};
}

}  // namespace

Result<EventRef> enqueue(const Errand& errand, const Strand& trunk, Strands& side, const EventRef& earlier) {
  if (earlier) TN_TRY(trunk.follow(earlier));
  for (const Move& move : errand.moves) TN_TRY(trunk.copy(move.to, move.from, move.bytes));
  TN_TRY(say_ready(errand, trunk));
  const std::vector<Chain> chains = chains_of(errand);
  EventRef fork;
  if (chains.size() > 1) fork = TN_TRY(trunk.mark());
  std::vector<EventRef> ends;
  for (size_t c = 1; c < chains.size(); ++c) {
    const Strand strand = TN_TRY(side.at(c - 1));
    TN_TRY(strand.follow(fork));
    TN_TRY(enqueue_chain(errand, chains[c], strand));
    ends.push_back(TN_TRY(strand.mark()));
  }
  if (!chains.empty()) TN_TRY(enqueue_chain(errand, chains[0], trunk));
  for (const EventRef& end : ends) TN_TRY(trunk.follow(end));
  TN_TRY(await_done(errand, trunk));
  return trunk.mark();
}

Result<CUdeviceptr> Aside::take(uint64_t bytes) {
  if (bytes > size_) {
    const uint64_t wanted = std::bit_ceil(bytes);
    kept_.push_back(wanted <= Slabs::largest ? TN_TRY(Slabs::take(gpu_->slabs(), wanted))
                                             : TN_TRY(map_pages(gpu_->context(), wanted, 0)));
    size_ = wanted;
  }
  return kept_.back()->address();
}

}  // namespace tenon::cuda::comm
