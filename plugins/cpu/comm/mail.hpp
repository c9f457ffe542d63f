// SPDX-License-Identifier: Apache-2.0
// mail.hpp: the messages of one group between ranks of one host: send, recv, all_to_all_v. Those between hosts are
// far_mail.hpp's.
//
// A sender writes what it offers into the pair's channel; the receiver takes it from the sender's own memory where it can
// reach that, else out of the pair's ring; then it says so, and both are done. Ranks that have no part in it never know.
// Invariant: one message at a time is in a channel, so each pair is first-in first-out; all pairs go on together.
#pragma once

#include "atlas.hpp"
#include "group.hpp"

namespace tenon::cpu::comm {

class Mail final : public Condition {
 public:
  Mail(Member& member, Atlas& atlas, std::span<const Letter> letters);

  // Does what can be done now; true when all is done. [one thread; does not block; cannot fail: it fails the member]
  bool met() override;
  bool awaits(uint32_t rank) const override;

 private:
  static constexpr size_t nobody = SIZE_MAX;
  struct State {
    size_t after = nobody;  // the letter that must be through first
    uint64_t moved = 0;
    bool open = false;  // offered, or seen and found to match
    bool done = false;
  };
  void send(const Letter& letter, State& state);
  void receive(const Letter& letter, State& state);
  bool look_at(const Letter& letter, Channel& channel);
  bool take_whole(const Letter& letter, const Channel& channel);
  void fill(const Letter& letter, State& state, Channel& channel);
  void drain(const Letter& letter, State& state, Channel& channel);

  Member& member_;
  Atlas& atlas_;
  const std::span<const Letter> letters_;
  std::vector<State> states_;
  size_t open_ = 0;  // letters that are not done
};

}  // namespace tenon::cpu::comm
