// SPDX-License-Identifier: Apache-2.0
// comm.hpp: one rank of a communicator: groups on their way from a submit to the stream that runs them.
//
// A group is an errand of its stream's worker, but a small one that nothing stands before, and to which the others have come, is
// done in its submit. The communicator has a timeline of its own, the count of groups that have
// ended; a submit on another stream than the last waits there for its turn.
// Invariant: groups run one at a time in the order of their submits, and every one that was submitted is counted, run or not.
#pragma once

#include "comm/collect.hpp"
#include "comm/far_mail.hpp"
#include "comm/join.hpp"
#include "comm/mail.hpp"
#include "stream.hpp"

#include <tenon/comm.h>

#include <array>
#include <functional>
#include <thread>

namespace tenon::cpu {

class Comm {
 public:
  // `stands` is told once, when all ranks have met. TN_TIMEOUT and more, unless NON_BLOCKING.
  // [any-thread; blocks unless NON_BLOCKING; may fail]
  static Result<std::unique_ptr<Comm>> create(comm::Segments& segments, comm::Ticket ticket,
                                              bool non_blocking,
                                              std::function<void(const comm::Member&)> stands);
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;
  // After finish().
  ~Comm();

  void limits(tn_comm_limits& out) const;
  Status submit(Stream& stream, std::span<const tn_comm_op> ops);
  Status abort();
  Status health();
  // Gives up a creation that is under way, and sees the groups out. Those that have not ended by then are aborted, and told:
  // TN_ABORTED; TN_TIMEOUT when their streams, or the creation, are held up by something else, so that they cannot even end.
  Status finish(uint64_t timeout_ns);

 private:
  // How many groups may be pending; the next submit waits.
  static constexpr uint64_t depth = 64;

  struct Pending final : Errand {
    Comm* owner = nullptr;
    uint64_t number = 0;
    comm::Group group{};
    bool begun = false;  // announced already, by its submit
    Status run() override { return owner->perform(*this); }
    void skip() noexcept override { owner->pass_over(*this); }
  };
  // What exists once all ranks have met.
  struct Standing {
    explicit Standing(comm::Joined joined)
        : member(std::move(joined.member)),
          bridge(std::move(joined.bridge)),
          atlas(*member),
          collector(*member, atlas, bridge.get()) {}
    std::unique_ptr<comm::Member> member;
    std::unique_ptr<comm::Bridge> bridge;
    comm::Atlas atlas;
    comm::Collector collector;
  };

  Comm(comm::Segments& segments, comm::Ticket ticket, std::function<void(const comm::Member&)> stands);
  Status join();
  void join_by_itself() noexcept;
  // False when it has not ended by then.
  bool end_joining(uint64_t timeout_ns) noexcept;
  void fail_as_aborted() noexcept;
  void wait_for_room(uint64_t number);
  bool is_small(const comm::Group& group) const noexcept;
  bool may_end_at_once(const Stream& stream, uint64_t number) const noexcept {
    return turns_->progress() == number - 1 && stream.idle();
  }
  // `begun`: the others were late, or brought something else.
  bool done_briefly(const tn_comm_op& op, uint64_t number, bool& begun);
  bool done_at_once(const Stream& stream, Pending& pending);
  void ended_at_once(uint64_t number) noexcept;
  void others_were_late() noexcept;
  Status no_memory();
  Status perform(Pending& pending);
  Status carry_out(const Pending& pending);
  void pass_over(Pending& pending) noexcept;
  void count(uint64_t number) noexcept;

  comm::Segments& segments_;
  comm::Ticket ticket_;
  std::function<void(const comm::Member&)> stands_;
  std::unique_ptr<Standing> standing_;
  std::atomic<bool> ready_{false}, refused_{false}, cancelled_{false};
  Error refusal_;                     // written before refused_
  std::thread joiner_;                // of a creation that does not block …
  std::atomic<uint32_t> joining_{0};  // … and 1 until it is through

  Timeline* turns_;  // groups that have ended
  std::array<Pending, depth> pending_;
  uint64_t submitted_ = 0, collectives_ = 0;
  uint32_t left_out_ = 0;     // small groups to come that are not tried in their submit …
  uint32_t late_ = 0;         // … and how many that will be when the others are late again
  uint32_t handed_over_ = 0;  // of the last groups, so many were small, and were not done in their submit
};

}  // namespace tenon::cpu
