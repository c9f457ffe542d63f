// SPDX-License-Identifier: Apache-2.0
// far_mail.hpp: the messages of one group between ranks of different hosts.
//
// A cover with count and dtype goes before each; the receiver compares it with what it expects. Contents travel under a tag
// made of both, so bytes never land where others are expected. They are cut, and what arrives of them shows that the other side, and
// the wire, go on.
// Invariant: all of them are under way from `post` on, whatever this rank does meanwhile.
#pragma once

#include "bridge.hpp"
#include "group.hpp"

#include <optional>

namespace tenon::cpu::comm {

class FarMail {
 public:
  // `bridge`: nullptr when all ranks are on one host; then there is nothing to do.
  FarMail(Member& member, Bridge* bridge, std::span<const Letter> letters);

  // [one thread; does not block; may fail]
  Status post();
  // Waits for all. TN_MISMATCH names both sides; else as Bridge::exchange. [one thread; blocks; may fail]
  Status finish();

 private:
  struct Cover {
    uint64_t count, dtype;
  };
  Status post(const Letter& letter, Cover& cover);
  // Waits a moment for the next transfers of letter `i`. Whether any was done.
  Result<bool> advance(size_t i);
  bool is_done(size_t i) const noexcept { return next_[i] == end_[i]; }
  Status compare(const Letter& letter, const Cover& cover);

  Member& member_;
  Bridge* const bridge_;
  const std::span<const Letter> letters_;
  std::vector<Cover> covers_;        // of each letter …
  std::vector<size_t> begin_, end_;  // … its transfers, the first of which is the cover's …
  std::vector<size_t> next_;         // … and which of them is looked at
  std::optional<Bridge::Transfers> transfers_;
};

}  // namespace tenon::cpu::comm
