// SPDX-License-Identifier: Apache-2.0
// waiting.cpp: spinning, sleeping, and telling a slow rank from one that is lost, stopped, or waits for this one.
//
// Sleeping: a rank announces itself in `asleep`, then reads its bell and looks once more, each time before it sleeps; whoever
// finishes a step stores it, then looks at `asleep`. One of the two sees the other, because there is a fence between the two accesses of
// each: one that the sleeper lets all of them pass, as steps are finished much more often; or one of each its own, where the kernel has
// no such thing. Once is enough, as nobody else ends the announcement.
// Life: a sleeper hears the ranks that it waits for at work, and passes on when it last did; so who waits for it knows of
// work behind it, while ranks that only wait for each other never hear anything new.
// Invariant: a rank is blamed only after it was seen to be missing *after* it was seen to be gone, stopped or waiting.
#include "member.hpp"

#include "../engine/idle.hpp"

#include <tenon/author/comm_checks.hpp>
#include <tenon/author/text.hpp>

#include <algorithm>

namespace tenon::cpu::comm {

using author::text;

namespace {

// Ranks that share processors give them to each other first: a barrier of 4 on 2 takes 1.2 µs so, and 7 with a futex.
constexpr uint32_t yields = 20;
// Two ranks stand still when each has looked so often since the other's last deed; the first look may have been under way.
constexpr uint32_t looks_enough = 3;

bool holds(const std::array<uint64_t, Slot::most_ranks / 64>& ranks, uint32_t rank) {
  return (ranks[rank / 64] >> rank % 64 & 1) != 0;
}

}  // namespace

// One sleep: whom it is for, and how long it is worth while.
class Member::Vigil {
 public:
  Vigil(Member& member, Condition& condition)
      : member_(member), condition_(condition), own_(member.slot(member.rank_)) {
    own_.group.store(member.sequence_, std::memory_order_relaxed);
    own_.kind.store(member.kind_, std::memory_order_relaxed);
  }

  // When the condition was just seen not to be met: why not to wait on. [does not block; may fail]
  Status look() {
    now_ = driver::now_ns();
    listen();
    own_.looks.fetch_add(1, std::memory_order_release);
    TN_TRY(look_for_lost());
    TN_TRY(look_for_standstill());
    return now_ < until() ? Status() : too_late();
  }
  // When to look again.
  uint64_t next_look() const noexcept { return std::min(until(), now_ + look_ns); }

 private:
  // Who is waited for itself is the first to know why, and to say so.
  uint64_t until() const noexcept {
    const uint64_t grace = behind_sleeper_ ? std::min(2 * look_ns, member_.timeout_ / 40) : 0;
    return deadline_ > driver::never - grace ? driver::never : deadline_ + grace;
  }
  void listen() noexcept;
  Status look_for_lost();
  Status look_for_standstill();
  Status too_late();

  // What does not change while two ranks wait for each other.
  struct Standstill {
    uint32_t rank = UINT32_MAX, pace = 0, beat = 0, deeds = 0;
    bool operator==(const Standstill&) const = default;
  };

  Member& member_;
  Condition& condition_;
  Slot& own_;
  std::array<uint64_t, Slot::most_ranks / 64> awaited_{};
  uint64_t now_ = 0, signs_ = 0, heard_ = 0, deadline_ = 0;
  bool behind_sleeper_ = false;  // one that is waited for waits, too
  Standstill standstill_{};
  uint32_t looks_then_ = 0;
};

void Member::Vigil::listen() noexcept {
  uint64_t signs = 0, heard = heard_;
  awaited_ = {};
  behind_sleeper_ = false;
  for (const uint32_t q : member_.mates_) {
    if (q == member_.rank_ || !condition_.awaits(q)) continue;
    awaited_[q / 64] |= uint64_t{1} << q % 64;
    const Slot& other = member_.slot(q);
    signs += other.pace();
    signs += other.beat.load(std::memory_order_relaxed);
    heard = std::max(heard, other.heard.load(std::memory_order_relaxed));
    behind_sleeper_ = behind_sleeper_ || other.asleep.load(std::memory_order_relaxed) != 0;
  }
  for (size_t i = 0; i < awaited_.size(); ++i) own_.awaits[i].store(awaited_[i], std::memory_order_relaxed);
  if (heard_ == 0 || signs != signs_) heard = now_;  // whom nothing is awaited of any more was at work, too
  signs_ = signs;
  if (heard == heard_) return;
  heard_ = heard;
  own_.heard.store(heard, std::memory_order_relaxed);
  deadline_ = member_.timeout_ > driver::never - heard ? driver::never : heard + member_.timeout_;
}

Status Member::Vigil::look_for_lost() {
  for (const uint32_t q : member_.mates_) {
    if (!holds(awaited_, q) || !member_.lost(q)) continue;
    if (condition_.met() || !condition_.awaits(q)) continue;  // it was there before it went
    const bool left = member_.slot(q).gone.load() != 0;
    return member_.fail(TN_PEER_LOST,
                        text(member_.in_words(q), left ? " destroyed its communicator" : " has ended",
                             " while rank ", member_.rank_, " waited for it in ", member_.doing_in_words(),
                             ": make a communicator of those who are left"));
  }
  return {};
}

// A rank that waits for this one goes on when this one does, and this one when that does. When both have looked since the other
// last did anything, neither ever will: nobody else can do it for them, as groups of a communicator run one at a time.
Status Member::Vigil::look_for_standstill() {
  for (const uint32_t q : member_.mates_) {
    if (!holds(awaited_, q)) continue;
    const Slot& other = member_.slot(q);
    const uint32_t looks = other.looks.load(std::memory_order_acquire);
    const uint64_t theirs = other.awaits[member_.rank_ / 64].load(std::memory_order_relaxed);
    if (other.asleep.load(std::memory_order_seq_cst) == 0 || (theirs >> member_.rank_ % 64 & 1) == 0)
      continue;
    const Standstill now{.rank = q,
                         .pace = other.pace(),
                         .beat = other.beat.load(std::memory_order_relaxed),
                         .deeds = member_.deeds_};
    if (now != standstill_) {
      standstill_ = now;
      looks_then_ = looks;
      return {};
    }
    if (looks - looks_then_ < looks_enough || condition_.met() || member_.deeds_ != now.deeds) return {};
    return member_.fail(
        TN_MISMATCH,
        text(member_.in_words(member_.rank_), " is in ", member_.doing_in_words(), ", ", member_.in_words(q),
             " in group ", other.group.load(), " (", author::kind_name(other.kind.load()),
             "), and each waits for the other: all ranks must submit the same in the same "
             "order, and a receive for each send"));
  }
  return {};
}

Status Member::Vigil::too_late() {
  for (const uint32_t q : member_.mates_) {
    if (!holds(awaited_, q)) continue;
    const char* where =
        member_.slot(q).inside.load() != 0 ? " is in a group and does not go on" : " did not come";
    return member_.fail(
        TN_TIMEOUT,
        text(member_.in_words(q), where, "; rank ", member_.rank_, " waited ", member_.timeout_ / 1'000'000,
             " ms for it in ", member_.doing_in_words(), ": look what holds it up, or give more time"));
  }
  return member_.fail(TN_TIMEOUT,
                      text("rank ", member_.rank_, " itself did not go on in ", member_.doing_in_words()));
}

Status Member::wait(Condition& condition) {
  const uint32_t turns = crowded_ ? 1 : spin_turns;
  for (uint32_t turn = 1; turn <= turns; ++turn) {
    if (condition.met()) return {};
    if (turn % yield_turns != 0) {
      driver::pause();
      continue;
    }
    if (failed()) break;
    driver::yield();
  }
  for (uint32_t turn = 0; turn < yields; ++turn) {
    driver::yield();
    if (condition.met()) return {};
  }
  return sleep(condition);
}

Status Member::sleep(Condition& condition) {
  Slot& own = slot(rank_);
  Vigil vigil(*this, condition);
  Status outcome;
  own.asleep.store(1, std::memory_order_seq_cst);
  if (!unfenced_) system::fence_all();
  for (;;) {
    const uint32_t bell = own.bell.load(std::memory_order_seq_cst);
    if (condition.met()) break;
    outcome = failed() ? failure() : vigil.look();
    if (!outcome.ok()) break;
    system::sleep_on(own.bell, bell, vigil.next_look());
  }
  own.asleep.store(0, std::memory_order_seq_cst);
  return outcome;
}

}  // namespace tenon::cpu::comm
