// SPDX-License-Identifier: Apache-2.0
// abort_relay.hpp: carries an abort, and a mismatch, to the other ranks of a communicator, by the store that they met on.
//
// A plugin's abort need not reach further than its own rank. So who aborts says so in the store first; and a rank of which
// a stream has stood still for 0.1 s looks there, again and again at intervals that double up to 0.5 s. Where all work goes on nobody
// looks. Ranks that stand still find out whether they ever go on (inquest.hpp); what they find ends the communicator as an abort does.
// Invariant: the entry is written once, so all ranks name the one that aborted first, also those that heard of it by their plugin.
#pragma once

#include "comm/comm_state.hpp"
#include "comm/flight.hpp"
#include "comm/inquest.hpp"
#include "runtime/timeline.hpp"

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace tenon::comm {

class AbortRelay {
 public:
  // For a rank of `comm`, which notes its groups in `flight`; `end` ends its part once another rank has aborted. All outlive this.
  AbortRelay(const detail::CommState& comm, const Flight& flight, std::function<void()> end);
  AbortRelay(const AbortRelay&) = delete;
  AbortRelay& operator=(const AbortRelay&) = delete;
  ~AbortRelay() { leave(); }

  // Groups go on `line`, too, from now on. [stream's thread; does not block; cannot fail]
  void follow(runtime::Timeline& line);
  // Tells the others that this rank aborts. Takes half a second at most. [any-thread; may block; cannot fail]
  void tell() noexcept;
  // Makes of `end`, a failure, its cause where that is known: a TN_MISMATCH, or of TN_ABORTED who was the first; of those whose time is
  // over, or who lost a rank, who did not come. [any-thread; does not block; cannot fail]
  void name(Error& end) const noexcept;
  // As `name`. False: it is being found out; ask again, true within a second. [any-thread; does not block; cannot fail]
  bool settled(Error& end) noexcept;
  // Is told of submits. Lives as long as this.
  Inquest& inquest() noexcept { return inquest_; }
  // Looks no more. [any-thread; may block; cannot fail]
  void leave() noexcept;

 private:
  struct Course {
    runtime::Hold line{};
    uint64_t recorded = 0, reached = 0;  // when it was asked last
    bool waits = false;                  // there was work then
  };

  void run();
  void find_out(Inquest::Time now) noexcept;
  bool stands_still();
  void look();

  const Store store_;
  const std::string place_, told_;  // its entry, and what precedes the rank's number in words
  const uint32_t rank_;
  const Flight& flight_;
  const std::function<void()> end_;
  Inquest inquest_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Course> courses_;
  std::optional<std::string> first_;  // what was told first: the rank that aborted, or a mismatch
  bool over_ = false;
  bool asked_ = false, answered_ = false;  // who was first, after an abort that is known
  uint64_t groups_ = 0;
  std::thread thread_;
};

}  // namespace tenon::comm
