// SPDX-License-Identifier: Apache-2.0
// collect.cpp: announcing, checking, and choosing the way.
//
// Boards are used in turns, and stages, too: who writes one again has waited for a step that the others finish only after they
// are done with what it held.
// Invariant: nothing of another rank is read before the step that published it.
#include "collect.hpp"

#include <tenon/author/names.hpp>
#include <tenon/author/text.hpp>

#include <algorithm>
#include <cstring>

namespace tenon::cpu::comm {

using author::text;

namespace {

constexpr uint64_t line = 64;
uint64_t to_line(uint64_t bytes) { return (bytes + line - 1) / line * line; }

// Saturates, as it is only compared with a small limit.
uint64_t bytes_brought(const Operation& operation, uint64_t blocks) {
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(operation.count * blocks, operation.width, &bytes) || bytes > Board::eager_bytes)
    return Board::eager_bytes + 1;
  return to_line(bytes);
}

// Whether ranks have sums that others want.
bool sums_for_all(std::span<const Operation> operations) {
  return std::any_of(operations.begin(), operations.end(),
                     [](const Operation& o) { return o.kind == TN_COMM_ALL_REDUCE && o.count != 0; });
}

Terms terms_of(const Operation& o) {
  return {.kind = o.kind,
          .dtype = o.dtype,
          .reduce = o.reduce,
          .root = o.root,
          .count = o.count,
          .factor = o.factor != nullptr ? factor_at(o.factor, o.dtype) : factor_of(o.scalar, o.dtype)};
}

std::string told(const Terms& card) {
  std::string words = kind_name(card.kind);
  if (card.kind == TN_COMM_BARRIER) return words;
  if (reduces(card.kind)) words += text(" ", reduce_name(card.reduce));
  words += text(" ", author::dtype_name(card.dtype));
  if (card.kind != TN_COMM_ALL_TO_ALL_V) words += text(" × ", card.count);
  if (is_rooted(card.kind)) words += text(", root ", card.root);
  return words;
}

}  // namespace

Collector::Collector(Member& member, Atlas& atlas, Bridge* bridge)
    : member_(member),
      atlas_(atlas),
      bridge_(bridge),
      rank_(member.rank()),
      size_(member.size()),
      stages_(bridge == nullptr ? member.segment().layout().near : member.segment().layout().far),
      alone_(bridge != nullptr && bridge->hosts().ranks_of(bridge->hosts().host_of(rank_)).size() == 1),
      sources_(size_),
      moved_sources_(size_),
      outs_(size_),
      moved_outs_(size_),
      factors_(size_) {}

uint64_t Collector::blocks(const Operation& operation) const noexcept {
  return operation.kind == TN_COMM_REDUCE_SCATTER || operation.kind == TN_COMM_ALL_TO_ALL ? size_ : 1;
}

uint64_t Collector::bytes_brought(std::span<const Operation> operations) const noexcept {
  uint64_t bytes = 0;
  for (const Operation& o : operations) bytes += comm::bytes_brought(o, blocks(o));
  return bytes;
}

bool Collector::is_small(std::span<const Operation> operations, uint64_t most_bytes) const noexcept {
  uint64_t bytes = 0;
  for (const Operation& o : operations) {
    uint64_t own = 0;
    if (__builtin_mul_overflow(o.count, blocks(o) * o.width, &own) || own > most_bytes) return false;
    bytes += own;
  }
  return bridge_ == nullptr && bytes <= most_bytes;
}

// Between hosts boards are what travels.
bool Collector::fits_step(std::span<const Operation> operations) const noexcept {
  if (bridge_ != nullptr || operations.size() != 1 || brought_ > line) return false;
  const Operation& o = operations.front();
  return o.count * blocks(o) * o.width <= Step::most_bytes;
}

void Collector::begin(std::span<const Operation> operations, uint64_t sequence) {
  phase_ = 0;
  const Operation& first = operations.front();
  member_.doing(sequence, first.kind);
  brought_ = bytes_brought(operations);
  const bool noted = fits_step(operations);
  if (noted) {
    Step& step = member_.next_step();
    step.sequence = sequence;
    step.terms = terms_of(first);
    if (first.send != nullptr) std::memcpy(step.data, first.send, first.count * blocks(first) * first.width);
  } else {
    fill_board(operations, sequence);
  }
  if (bridge_ == nullptr) member_.post(noted);  // else when the other hosts' boards are here
}

// The data lies on the board, too, when it fits.
void Collector::fill_board(std::span<const Operation> operations, uint64_t sequence) noexcept {
  Board& board = member_.segment().board(rank_, turn_);
  board.sequence = sequence;
  board.count = static_cast<uint32_t>(operations.size());
  for (size_t i = 0; i < operations.size(); ++i)
    board.cards()[i] = {terms_of(operations[i]), operations[i].send_at, operations[i].recv_at};
  if (brought_ > Board::eager_bytes) return;
  std::byte* to = board.data();
  for (const Operation& o : operations) {
    const uint64_t bytes = o.count * blocks(o) * o.width;
    if (o.send != nullptr && bytes != 0) std::memcpy(to, o.send, bytes);
    to += to_line(bytes);
  }
}

Status Collector::finish(std::span<const Operation> operations) {
  if (bridge_ != nullptr) {
    TN_TRY(cross_boards(brought_ <= Board::eager_bytes ? brought_ : 0));
    member_.post();
  }
  for (bool ended = false; !ended;) {
    TN_TRY(member_.wait_all());
    ended = TN_TRY(advance(operations));
  }
  return {};
}

// The group's last step is followed by no work, only by the next group.
Result<bool> Collector::advance(std::span<const Operation> operations) {
  const uint32_t phase = phase_++;
  bool ended = false;
  if (phase == 0) {
    TN_TRY(check_order());
    way_ = choose(operations);
    if (way_ == Way::eager) TN_TRY(run_eager(operations));
    if (way_ == Way::direct) TN_TRY(run_direct(operations));
    if (way_ == Way::fetched) TN_TRY(run_fetched(operations));
    ended = way_ == Way::eager;
  } else if (way_ == Way::staged) {
    TN_TRY(run_staged(operations));
    ended = true;
  } else if (way_ == Way::fetched && phase == 1 && sums_for_all(operations)) {
    TN_TRY(take_results(operations));
  } else {
    ended = true;
  }
  if (ended) ++turn_;
  return ended;
}

Collector::Way Collector::choose(std::span<const Operation> operations) {
  if (brought_ <= Board::eager_bytes) return Way::eager;
  if (bridge_ != nullptr) return Way::staged;
  if (all_reachable()) return Way::direct;
  uint64_t most = 0;
  for (const Operation& o : operations) most = std::max(most, o.count * blocks(o) * o.width);
  return member_.quickly_readable(most) ? Way::fetched : Way::staged;
}

Status Collector::check_order() {
  const Brought ours = brought_by(rank_);
  for (uint32_t q = 0; q < size_; ++q) {
    if (q != rank_) TN_TRY(compare(q, brought_by(q), ours));
  }
  atlas_.forget_freed();
  return {};
}

// The ranks go step by step, so unequal numbers mean that one of them has lost a group; no submit can bring that about.
Status Collector::compare(uint32_t rank, const Brought& theirs, const Brought& ours) {
  if (theirs.sequence() != ours.sequence()) {
    return member_.fail(TN_MISMATCH, text(member_.in_words(rank), " is at group ", theirs.sequence(), ", ",
                                          member_.in_words(rank_), " at group ", ours.sequence(),
                                          ": run one build of the cpu plugin on all ranks"));
  }
  const uint32_t both = std::min(theirs.count(), ours.count());
  for (uint32_t i = 0; i < both; ++i) {
    const Terms &a = theirs.terms(i), &b = ours.terms(i);
    if (alike(a, b)) continue;
    return member_.fail(TN_MISMATCH,
                        text("group ", ours.sequence(), ", collective ", i, ": ", member_.in_words(rank),
                             " has ", told(a), ", ", member_.in_words(rank_), " has ", told(b),
                             ": all ranks must submit the same in the same order"));
  }
  if (theirs.count() == ours.count()) return {};
  const bool more = theirs.count() > ours.count();
  return member_.fail(
      TN_MISMATCH,
      text("group ", ours.sequence(), ": ", member_.in_words(rank), " has ", theirs.count(), " collectives, ",
           member_.in_words(rank_), " has ", ours.count(), " collectives; the first that only one has is ",
           told((more ? theirs : ours).terms(both)), ": all ranks must submit the same in the same order"));
}

// Whether every rank may reach every buffer of this group.
bool Collector::all_reachable() {
  if (member_.one_process()) return true;
  if (!member_.open()) return false;
  for (uint32_t q = 0; q < size_; ++q) {
    const Board& board = member_.segment().board(q, turn_);
    for (uint32_t i = 0; i < board.count; ++i) {
      if (board.cards()[i].send.kind == Window::personal || board.cards()[i].recv.kind == Window::personal)
        return false;
    }
  }
  return true;
}

void Collector::gather_factors(const Operation& operation, uint32_t index) {
  if (operation.reduce != TN_REDUCE_PREMUL_SUM) return;
  for (uint32_t q = 0; q < size_; ++q) factors_[q] = brought_by(q).terms(index).factor;
}

Status Collector::run_eager(std::span<const Operation> operations) {
  uint64_t at = 0;
  for (uint32_t i = 0; i < operations.size(); ++i) {
    const Operation& o = operations[i];
    for (uint32_t q = 0; q < size_; ++q) sources_[q] = brought_by(q).data() + at;
    gather_factors(o, i);
    if (!deliver(o, {.first = 0, .count = o.count, .stride = o.count * o.width})) return member_.failure();
    at += to_line(o.count * blocks(o) * o.width);
  }
  return {};
}

Status Collector::run_direct(std::span<const Operation> operations) {
  for (uint32_t i = 0; i < operations.size(); ++i) {
    const Operation& o = operations[i];
    if (o.count == 0) continue;
    for (uint32_t q = 0; q < size_; ++q) {
      const Window& window = member_.segment().board(q, turn_).cards()[i].send;
      auto found = atlas_.find(q, window, blocks(o) * o.count * o.width);
      if (!found.ok()) return member_.fail(found.code(), std::string(found.message()));
      sources_[q] = *found;
    }
    gather_factors(o, i);
    if (is_sum(o)) {
      TN_TRY(push_slice(o, i));
    } else if (!deliver(o, {.first = 0, .count = o.count, .stride = o.count * o.width})) {
      return member_.failure();
    }
  }
  member_.post();
  return {};
}

// Reduces this rank's slice from everyone's buffer and writes it to everyone who gets it. Writing to the others is two to
// three times faster than letting them fetch it: the lines are here already.
Status Collector::push_slice(const Operation& o, uint32_t index) {
  const Slice slice(o.count, o.width, rank_, size_);
  size_t count = 0;
  for (uint32_t q = 0; q < size_; ++q) {
    if (o.kind == TN_COMM_REDUCE && static_cast<uint32_t>(o.root) != q) continue;
    auto found = atlas_.find(q, member_.segment().board(q, turn_).cards()[index].recv, o.count * o.width);
    if (!found.ok()) return member_.fail(found.code(), std::string(found.message()));
    outs_[count++] = *found + slice.begin * o.width;
  }
  return ended(reduce(o, slice.begin * o.width, slice.end - slice.begin, {outs_.data(), count}));
}

Status Collector::run_staged(std::span<const Operation> operations) {
  // After a failure, or without memory, some are under way: they end before the caller has its buffers back.
  struct Ending {
    Collector& own;
    ~Ending() {
      own.under_way_.clear();
      own.results_.clear();
    }
  } const ending{*this};
  for (uint32_t i = 0; i < operations.size(); ++i) {
    gather_factors(operations[i], i);
    TN_TRY(pass_stages(operations[i]));
  }
  return {};
}

// Pieces go through the stages one behind the other. In round k piece k is summed, or delivered, and the sums of the one `late` before
// it are collected; contributions of the pieces behind, and sums of those between, travel meanwhile. One step a round.
Status Collector::pass_stages(const Operation& o) {
  const uint64_t element = o.width * blocks(o);  // one of each block
  if (o.count == 0 || element == 0) return {};
  const uint64_t in_one = stages_.bytes / (stages_.parts * element);
  const uint64_t pieces = (o.count + in_one - 1) / in_one;
  const bool sums = is_sum(o);
  const auto part_at = [&](uint64_t k) {
    const uint64_t n = std::min(in_one, o.count - k * in_one);
    return Part{
        .first = k * in_one, .count = n, .stride = n * o.width, .turn = stage_ + static_cast<uint32_t>(k)};
  };
  const uint64_t late = sums ? std::min<uint64_t>(stages_.parts / 4, pieces) : 0,
                 ahead = stages_.parts - std::max<uint64_t>(late, 1);
  uint64_t begun = 0;
  const auto begin_until = [&](uint64_t end) -> Status {
    for (; begun < std::min(end, pieces); ++begun) TN_TRY(begin_part(o, part_at(begun)));
    return {};
  };
  for (uint64_t k = 0; k < pieces + late; ++k) {
    const bool collects = sums && k >= late;
    // Behind the step of round k all mates have left round k - 1, and with it piece k - 1 - late, whose stage is free then.
    TN_TRY(begin_until(k + ahead - 1));
    if (k < pieces) TN_TRY(arrived(under_way_));
    if (collects) TN_TRY(arrived(results_));
    TN_TRY(member_.step());
    TN_TRY(begin_until(k + ahead));
    if (k < pieces) TN_TRY(sums ? sum_slice(o, part_at(k)) : deliver_piece(o, part_at(k)));
    if (collects) TN_TRY(collect_slices(o, part_at(k - late)));
  }
  stage_ += static_cast<uint32_t>(pieces);
  return {};
}

Status Collector::arrived(std::deque<Bridge::Transfers>& first) {
  if (bridge_ == nullptr) return {};
  TN_TRY(first.front().finish());
  first.pop_front();
  return {};
}

Status Collector::begin_part(const Operation& o, const Part& part) {
  if (!alone_ || !is_sum(o)) fill_stage(o, part, stage(rank_, part.turn));
  return bridge_ == nullptr ? Status() : cross_contributions(o, part);
}

// Of what is summed in slices, a rank's own slice is read by nobody else.
void Collector::fill_stage(const Operation& o, const Part& part, std::byte* stage) {
  if (o.send == nullptr) return;
  if (is_sum(o)) {
    const Slice own(part.count, o.width, rank_, size_);
    const std::byte* const from = o.send + part.first * o.width;
    std::memcpy(stage, from, own.begin * o.width);
    std::memcpy(stage + own.end * o.width, from + own.end * o.width, (part.count - own.end) * o.width);
    return;
  }
  for (uint64_t block = 0; block < blocks(o); ++block) {
    std::memcpy(stage + block * part.stride, o.send + (block * o.count + part.first) * o.width, part.stride);
  }
}

Status Collector::deliver_piece(const Operation& o, const Part& part) {
  find_stages(part);
  return ended(deliver(o, part));
}

void Collector::find_stages(const Part& part) {
  for (uint32_t q = 0; q < size_; ++q) sources_[q] = stage(q, part.turn);
}

// Each rank reduces its slice to where it wants it, and to where the others find it and it is sent from: mostly its own stage.
Status Collector::sum_slice(const Operation& o, const Part& part) {
  find_stages(part);
  sources_[rank_] = o.send + part.first * o.width;
  const Slice own(part.count, o.width, rank_, size_);
  const uint64_t skip = own.begin * o.width;
  std::byte* const outs[] = {sums_of(o, part, rank_) + skip,
                             o.recv == nullptr ? nullptr : o.recv + part.first * o.width + skip};
  const bool both = o.recv != nullptr && outs[0] != outs[1];
  if (!reduce(o, skip, own.end - own.begin, {outs, both ? size_t{2} : size_t{1}})) return member_.failure();
  return bridge_ == nullptr ? Status() : cross_results(o, part);
}

// Those who get the result collect the other slices.
Status Collector::collect_slices(const Operation& o, const Part& part) {
  if (o.recv == nullptr || alone_) return {};
  for (uint32_t q = 0; q < size_; ++q) {
    if (q == rank_) continue;
    const Slice slice(part.count, o.width, q, size_);
    std::byte* const to = o.recv + (part.first + slice.begin) * o.width;
    const std::byte* const from = stage(q, part.turn) + slice.begin * o.width;
    if (!copy(to, from, (slice.end - slice.begin) * o.width)) return member_.failure();
  }
  return {};
}

}  // namespace tenon::cpu::comm
