// SPDX-License-Identifier: Apache-2.0
// scheduler.hpp: decides which stream's next command runs, as late and in as unexpected an order as is legal.
//
// Nothing runs until somebody demands it: a sync, a record at its limit, the end of a stream. Then one worker picks, by
// seed, among the first commands of all lanes, whoever asked, until the demand is met. A question lets one command run; work
// that nobody asks for starts after `idle_ms`. One more thread runs host calls, one after the other.
// Invariant: everything here and in lanes is guarded by one mutex, which is not held while a command runs. A lane's
// commands run in order, and none before what it waits for. With the same seed and the same calls of one thread, in which
// only syncs demand, the order is the same.
#pragma once

#include "card.hpp"
#include "lane.hpp"

#include <condition_variable>
#include <list>
#include <mutex>
#include <thread>
#include <vector>

namespace tenon::sim {

class Scheduler {
 public:
  explicit Scheduler(const Profile& profile);
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;
  ~Scheduler() { quiesce(); }

  // A lane for a new stream. [any-thread; does not block]
  std::shared_ptr<Lane> open(Card& card);
  // Ends it: completes what is queued, or drops it. The failure that nobody was told, or how many promises were open.
  // [stream's thread; blocks; may fail]
  Status close(const std::shared_ptr<Lane>& lane, bool abandon);

  // Enqueues. The lane's failure, flagged ASYNC. [stream's thread; does not block unless the profile is synchronous]
  Status post(Lane& lane, Command command);
  // [stream's thread; blocks at the limit where the profile says so; may fail]
  Result<uint64_t> record(Lane& lane, bool timed);
  Status wait(Lane& lane, const std::shared_ptr<Lane>& other, uint64_t value);

  // Ends the exchange that the lane has begun. [any-thread; does not block; cannot fail]
  void complete(const std::shared_ptr<Lane>& lane, const Status& said);
  // Lets all lanes go on until `met`, which an exchange's end may change; false after the timeout. [any-thread; blocks]
  bool press_on(const std::function<bool()>& met, uint64_t timeout_ns);

  // [any-thread; does not block; may fail]
  Result<uint64_t> completed(Lane& lane);
  Result<uint64_t> timestamp(Lane& lane, uint64_t value);
  Status signal(Lane& lane, uint64_t value, int32_t code);
  Result<uint64_t> promise(Lane& lane);
  // [any-thread; blocks; may fail]
  Status sync(Lane& lane, uint64_t value, uint64_t timeout_ns);

  // Runs all that can run, then stops the threads; they start again when needed. [any-thread; blocks; cannot fail]
  void quiesce();

 private:
  using Lock = std::unique_lock<std::mutex>;
  using Demand = std::function<bool()>;  // true once it is met
  static constexpr uint64_t never = UINT64_MAX;

  // Lets the worker go on until `met`, or until the deadline; whether it was met.
  bool await(Lock& lock, const Demand& met, uint64_t timeout_ns = never);
  void start_threads();
  // Something was enqueued or has changed: the clock of idleness starts again.
  void touched();

  void serve();        // the worker
  void serve_calls();  // the thread of host calls
  void doze(Lock& lock);
  bool wanted() const;                  // whether somebody demands that commands run
  std::vector<size_t> choices() const;  // lanes whose first command may run now
  void run_first(Lock& lock, const std::shared_ptr<Lane>& lane);
  void finished(Lane& lane, const Status& result);
  void reach(Lane& lane, const Command& mark);
  void fail(Lane& lane, const Error& why);
  void drop_queue(Lane& lane);
  Status refusal(Lane& lane) const;
  Status told(Lane& lane) const;
  void push(Lane& lane, Command command);
  Status room_for_record(Lock& lock, Lane& lane);
  void settle(Lock& lock, Lane& lane);  // waits where the profile is synchronous
  uint64_t next_value(Lane& lane) { return lane.issued += 1 + lane.gaps() % 3; }

  const Profile profile_;
  std::mutex quiesce_mutex_;  // one quiesce at a time; taken first
  mutable std::mutex mutex_;
  std::condition_variable worker_wakes_, caller_wakes_, progress_;
  std::vector<std::shared_ptr<Lane>> lanes_{};
  std::list<Demand> demands_{};
  std::deque<std::pair<std::shared_ptr<Lane>, Command>> calls_{};
  uint64_t credit_ = 0;      // commands that queries have asked for
  uint64_t touched_ns_ = 0;  // when the newest command came
  uint64_t opened_ = 0;      // lanes so far; seeds their gaps
  std::mt19937_64 random_;
  std::thread worker_, caller_;
  bool armed_ = false;  // the worker sleeps with a deadline, so a new command need not wake it
  bool stopping_ = false;
};

}  // namespace tenon::sim
