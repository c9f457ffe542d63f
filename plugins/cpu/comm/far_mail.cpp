// SPDX-License-Identifier: Apache-2.0
// far_mail.cpp: see far_mail.hpp.
//
// Contents are cut, so that each piece that arrives shows that the other side goes on.
#include "far_mail.hpp"

#include <tenon/author/names.hpp>
#include <tenon/author/text.hpp>

#include <algorithm>

namespace tenon::cpu::comm {

using author::text;

namespace {

constexpr uint64_t far_piece = 16 << 20;
constexpr size_t none = SIZE_MAX;
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
  cover_at_.resize(letters.size(), none);
  transfers_.emplace(*bridge);
}

Status FarMail::post() {
  for (size_t i = 0; transfers_ && i < letters_.size(); ++i) {
    if (member_.is_here(letters_[i].peer)) continue;
    cover_at_[i] = transfers_->size();
    TN_TRY(post(letters_[i], covers_[i]));
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

// Each is waited for a moment at a time, so that a cover that differs is found while others are late.
Status FarMail::finish() {
  std::vector<char> compared(covers_.size());
  for (bool all = !transfers_; !all;) {
    all = true;
    for (size_t i = 0; i < letters_.size(); ++i) {
      if (compared[i] || cover_at_[i] == none) continue;
      if (TN_TRY(transfers_->look(cover_at_[i]))) {
        TN_TRY(compare(letters_[i], covers_[i]));
        compared[i] = 1;
      } else {
        all = false;
      }
    }
    for (size_t i = 0; i < transfers_->size(); ++i) {
      if (!TN_TRY(transfers_->look(i))) all = false;
    }
  }
  return {};
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
