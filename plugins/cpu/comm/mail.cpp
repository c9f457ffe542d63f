// SPDX-License-Identifier: Apache-2.0
// mail.cpp: moving messages a piece at a time.
//
// Invariant: every store that the other side may sleep for is sequentially consistent and followed by its bell.
#include "mail.hpp"

#include <tenon/author/names.hpp>
#include <tenon/author/text.hpp>

#include <algorithm>
#include <cstring>

namespace tenon::cpu::comm {

using author::text;

Mail::Mail(Member& member, Atlas& atlas, std::span<const Letter> letters)
    : member_(member), atlas_(atlas), letters_(letters), states_(letters.size()), open_(letters.size()) {
  std::vector<size_t> last(size_t{2} * member.size(), nobody);
  for (size_t i = 0; i < letters.size(); ++i) {
    if (!member.is_here(letters[i].peer)) {
      states_[i].done = true;
      --open_;
      continue;
    }
    size_t& before = last[letters[i].peer * size_t{2} + (letters[i].sends ? 1 : 0)];
    states_[i].after = std::exchange(before, i);
  }
}

bool Mail::met() {
  if (open_ == 0) return true;
  for (size_t i = 0; i < letters_.size(); ++i) {
    State& state = states_[i];
    if (state.done || (state.after != nobody && !states_[state.after].done)) continue;
    if (letters_[i].sends) {
      send(letters_[i], state);
    } else {
      receive(letters_[i], state);
    }
    if (state.done && --open_ == 0) return true;
  }
  return false;
}

bool Mail::awaits(uint32_t rank) const {
  for (size_t i = 0; i < letters_.size(); ++i) {
    if (letters_[i].peer == rank && !states_[i].done) return true;
  }
  return false;
}

void Mail::send(const Letter& letter, State& state) {
  Channel& channel = member_.segment().channel(member_.rank(), letter.peer);
  const uint64_t taken = channel.taken.load(std::memory_order_seq_cst);
  if (!state.open) {
    if (channel.offered.load(std::memory_order_relaxed) != taken) return;
    channel.count = letter.count;
    channel.dtype = letter.dtype;
    channel.window = letter.window;
    channel.streams = member_.readable() || atlas_.reaches(letter.peer, letter.window) ? 0 : 1;
    channel.offered.store(taken + 1, std::memory_order_seq_cst);
    member_.tell(letter.peer);
    state.open = true;
  }
  if (channel.streams != 0 && state.moved < letter.bytes) fill(letter, state, channel);
  state.done =
      channel.taken.load(std::memory_order_seq_cst) == channel.offered.load(std::memory_order_relaxed);
}

void Mail::fill(const Letter& letter, State& state, Channel& channel) {
  const uint64_t room = member_.segment().layout().ring_bytes;
  uint64_t filled = channel.filled.load(std::memory_order_relaxed);
  const uint64_t free = room - (filled - channel.drained.load(std::memory_order_seq_cst));
  const uint64_t n = std::min(free, letter.bytes - state.moved);
  if (n == 0) return;
  std::byte* ring = member_.segment().ring(member_.rank(), letter.peer);
  const uint64_t at = filled % room, first = std::min(n, room - at);
  std::memcpy(ring + at, letter.data + state.moved, first);
  std::memcpy(ring, letter.data + state.moved + first, n - first);
  state.moved += n;
  channel.filled.store(filled + n, std::memory_order_seq_cst);
  (void)member_.goes_on();
  member_.tell(letter.peer);
}

void Mail::receive(const Letter& letter, State& state) {
  Channel& channel = member_.segment().channel(letter.peer, member_.rank());
  const uint64_t taken = channel.taken.load(std::memory_order_relaxed);
  if (channel.offered.load(std::memory_order_seq_cst) == taken) return;
  if (!state.open && !look_at(letter, channel)) return;
  state.open = true;
  if (channel.streams != 0) {
    drain(letter, state, channel);
  } else if (take_whole(letter, channel)) {
    state.moved = letter.bytes;
  } else {
    return;
  }
  if (state.moved != letter.bytes) return;
  state.done = true;
  channel.taken.store(taken + 1, std::memory_order_seq_cst);
  member_.tell(letter.peer);
}

bool Mail::look_at(const Letter& letter, Channel& channel) {
  if (channel.count == letter.count && channel.dtype == letter.dtype) return true;
  (void)member_.fail(TN_MISMATCH,
                     text(member_.in_words(letter.peer), " sends ", channel.count, " elements of ",
                          author::dtype_name(channel.dtype), " where ", member_.in_words(member_.rank()),
                          " receives ", letter.count, " of ", author::dtype_name(letter.dtype)));
  return false;
}

bool Mail::take_whole(const Letter& letter, const Channel& channel) {
  if (letter.bytes == 0) return true;
  if (!atlas_.reaches(letter.peer, channel.window))
    return atlas_.fetch(letter.peer, channel.window, 0, {letter.data, letter.bytes});
  const Result<std::byte*> from = atlas_.find(letter.peer, channel.window, letter.bytes);
  if (!from.ok()) {
    (void)member_.fail(from.code(), std::string(from.message()));
    return false;
  }
  for (uint64_t at = 0; at < letter.bytes; at += piece) {
    std::memmove(letter.data + at, *from + at, std::min(piece, letter.bytes - at));
    if (!member_.goes_on()) return false;
  }
  return true;
}

void Mail::drain(const Letter& letter, State& state, Channel& channel) {
  const uint64_t room = member_.segment().layout().ring_bytes;
  const uint64_t drained = channel.drained.load(std::memory_order_relaxed);
  const uint64_t n =
      std::min(channel.filled.load(std::memory_order_seq_cst) - drained, letter.bytes - state.moved);
  if (n == 0) return;
  const std::byte* ring = member_.segment().ring(letter.peer, member_.rank());
  const uint64_t at = drained % room, first = std::min(n, room - at);
  std::memcpy(letter.data + state.moved, ring + at, first);
  std::memcpy(letter.data + state.moved + first, ring, n - first);
  state.moved += n;
  channel.drained.store(drained + n, std::memory_order_seq_cst);
  (void)member_.goes_on();
  member_.tell(letter.peer);
}

}  // namespace tenon::cpu::comm
