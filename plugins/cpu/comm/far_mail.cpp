// SPDX-License-Identifier: Apache-2.0
// far_mail.cpp: see far_mail.hpp.
//
// Invariant: the transfers of a letter are done in their order, so who waits looks at one of each letter alone.
#include "far_mail.hpp"

#include <tenon/author/names.hpp>
#include <tenon/author/text.hpp>

#include <algorithm>

namespace tenon::cpu::comm {

using author::text;

namespace {

// What a slow wire carries well within a timeout. Smaller ones cost a fast one speed: of 512 KiB 64 MB over loopback take a fifth longer.
constexpr uint64_t far_piece = 1 << 20;
// How many of them are waited for together.
constexpr size_t at_once = 16;
constexpr uint64_t covers = uint64_t{3} << 56, contents = uint64_t{4} << 56;

// FNV-1a.
uint64_t content_tag(uint64_t number, uint64_t dtype, uint64_t count, uint64_t index) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (const uint64_t word : {number, dtype, count, index}) {
    for (uint32_t shift = 0; shift < 64; shift += 8) hash = (hash ^ (word >> shift & 0xFF)) * 0x100000001B3u;
  }
  return contents | hash >> 8;
}

}  // namespace

FarMail::FarMail(Member& member, Bridge* bridge, std::span<const Letter> letters)
    : member_(member), bridge_(bridge), letters_(letters) {
  const auto is_far = [&](const Letter& letter) { return !member.is_here(letter.peer); };
  if (bridge == nullptr || std::none_of(letters.begin(), letters.end(), is_far)) return;
  covers_.resize(letters.size());
  begin_.resize(letters.size());
  next_.resize(letters.size());
  end_.resize(letters.size());
  transfers_.emplace(*bridge);
}

Status FarMail::post() {
  for (size_t i = 0; transfers_ && i < letters_.size(); ++i) {
    if (member_.is_here(letters_[i].peer)) continue;
    next_[i] = begin_[i] = transfers_->size();
    TN_TRY(post(letters_[i], covers_[i]));
    end_[i] = transfers_->size();
  }
  return {};
}

Status FarMail::post(const Letter& letter, Cover& cover) {
  const uint64_t number = bridge_->next_letter(letter.peer, letter.sends);
  auto* const bytes = reinterpret_cast<std::byte*>(&cover);
  if (letter.sends) {
    cover = {letter.count, letter.dtype};
    TN_TRY(transfers_->send(letter.peer, covers | number, bytes, sizeof cover));
  } else {
    TN_TRY(transfers_->receive(letter.peer, covers | number, bytes, sizeof cover));
  }
  for (uint64_t at = 0; at < letter.bytes; at += far_piece) {
    const uint64_t tag = content_tag(number, letter.dtype, letter.count, at / far_piece);
    const uint64_t n = std::min(far_piece, letter.bytes - at);
    if (letter.sends) {
      TN_TRY(transfers_->send(letter.peer, tag, letter.data + at, n));
    } else {
      TN_TRY(transfers_->receive(letter.peer, tag, letter.data + at, n));
    }
  }
  return {};
}

// Each letter is waited for a moment at a time, so that a cover that differs is found while others are late.
Status FarMail::finish() {
  for (bool all = !transfers_; !all;) {
    const bool late = transfers_->is_late();
    bool goes_on = false;
    size_t open = letters_.size();
    for (size_t i = 0; i < letters_.size(); ++i) {
      if (is_done(i)) continue;
      if (TN_TRY(advance(i))) goes_on = true;
      if (!is_done(i)) open = std::min(open, i);
    }
    all = open == letters_.size();
    if (!all && late && !goes_on) return transfers_->too_late(next_[open]);
  }
  return {};
}

// The cover by itself, then several pieces at a time: a thread that is woken for each would take its processor from those that carry
// them. Where the last of several is late, those before it tell how far they came.
Result<bool> FarMail::advance(size_t i) {
  const size_t before = next_[i];
  const size_t end = before == begin_[i] ? before + 1 : std::min(before + at_once, end_[i]);
  (void)TN_TRY(transfers_->glance(end - 1));
  while (next_[i] != end && TN_TRY(transfers_->glance(next_[i]))) {
    if (next_[i]++ == begin_[i]) TN_TRY(compare(letters_[i], covers_[i]));
    if (!member_.goes_on()) return member_.failure();
  }
  return next_[i] != before;
}

Status FarMail::compare(const Letter& letter, const Cover& cover) {
  if (letter.sends || (cover.count == letter.count && cover.dtype == letter.dtype)) return {};
  return member_.fail(TN_MISMATCH,
                      text(member_.in_words(letter.peer), " sends ", cover.count, " elements of ",
                           author::dtype_name(static_cast<uint32_t>(cover.dtype)), " where ",
                           member_.in_words(member_.rank()), " receives ", letter.count, " of ",
                           author::dtype_name(letter.dtype)));
}

}  // namespace tenon::cpu::comm
