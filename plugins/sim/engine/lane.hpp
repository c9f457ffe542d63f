// SPDX-License-Identifier: Apache-2.0
// lane.hpp: one stream as the scheduler sees it: what is queued, how far it has come, why it failed.
//
// Who waits for a lane shares it, so a stream may end before those who wait for it.
// Invariant: only the scheduler touches a lane, under its mutex.
#pragma once

#include <tenon/result.hpp>

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>

namespace tenon::sim {

class Card;
struct Lane;

struct Command {
  enum class Kind {
    work,  // run on the device
    call,  // run on the thread of host calls
    mark,  // reaches `value`
    wait,  // blocks the lane until `other` has reached `value`
    // Begins on the device and ends when Scheduler::complete says so. It is the `value`-th of a row that may lie on several
    // lanes, and begins when all before it are among the `ended`.
    exchange,
  };
  Kind kind = Kind::work;
  std::function<Status()> run{};
  uint64_t value = 0;
  bool timed = false;
  std::shared_ptr<Lane> other{};
  std::shared_ptr<const std::atomic<uint64_t>> ended{};
  // Of an exchange that will not begin, or whose end nobody waits for. The scheduler's mutex is held.
  std::function<void(bool begun)> skipped{};
};

// A value that the host completes.
struct Promise {
  uint64_t value = 0;
  std::optional<int32_t> kept{};  // the code it was kept with
};

struct Lane {
  Card* card = nullptr;
  std::deque<Command> queue{};
  bool busy = false;                         // its first command has been taken out and runs
  std::function<void(bool begun)> let_go{};  // of the exchange that runs
  bool clean = true;                         // nothing was enqueued since the newest record
  uint64_t issued = 0;                       // newest value recorded or promised
  uint64_t reached = 0;
  uint64_t told = 0;    // newest value that a sync has learned of
  bool worked = false;  // has ever carried work, so takes no promises
  std::deque<Promise> promises{};
  bool promising = false;
  std::optional<Error> failure{};
  uint64_t failed_after = 0;  // what was reached when it failed
  bool failure_told = false;
  std::map<uint64_t, uint64_t> stamps{};  // value → ns, the newest 4,096
  std::mt19937_64 gaps{};                 // of values

  bool idle() const noexcept { return queue.empty() && !busy; }
};

}  // namespace tenon::sim
