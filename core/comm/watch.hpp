// SPDX-License-Identifier: Apache-2.0
// watch.hpp: several communicators that end together: one thread of each rank looks after them, and when one has ended,
// ranks find out through the store who is the cause.
//
// A communicator inside names whoever it waits for, who may be waiting for somebody else. So the first rank that sees trouble
// raises an alarm; every rank that hears it answers with what it has submitted; and who does not answer, or has submitted less
// or something else, is the cause.
// Collectives are numbered apart from messages, which are between two ranks and which the others need not know.
// Ranks that take different routes wait in different parts, where nothing is wrong. So who waits for long puts what its oldest
// group is on the store, or compares its own with what is there.
// Invariant: the verdict is written once, before anything is aborted because of it, so no rank takes the consequence for the
// cause; where the store is gone or does not answer each rank goes by what it saw itself, and names the rank that serves it.
#pragma once

#include "comm/comm_state.hpp"
#include "comm/pace.hpp"
#include "runtime/timeline.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace tenon::comm {

class Watch {
 public:
  // One of those that are looked after, and which ranks of the whole are in it, by theirs there; empty: all.
  struct Part {
    std::shared_ptr<detail::CommState> comm{};
    std::vector<uint32_t> ranks{};
  };
  // For the ranks of `whole`; `key` begins the keys on its store, which rank `keeper` serves.
  Watch(const detail::CommState& whole, std::string key, std::optional<uint32_t> keeper);
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch();

  // From now on. [one thread, once; does not block; may fail]
  void start(std::vector<Part> watched);
  // Tells the others that this rank goes, and stops. [one thread; may block; cannot fail]
  void leave() noexcept;

  // What this rank submits, in words for others. [stream's thread; does not block; cannot fail]
  void note(std::span<const CommOp> group, std::span<const Route> routes);
  // What was noted last was refused, so others never see it. [stream's thread; does not block; cannot fail]
  void refused();
  // What was noted last ends where `stream` reaches `value`. [stream's thread; does not block; cannot fail]
  void carried(const Stream& stream, uint64_t value);
  // Ends everything, on all ranks, because of `cause`. [any-thread; does not block; cannot fail]
  void end(Error cause);

  // Why everything has ended, once that is known. [any-thread; does not block; cannot fail]
  std::optional<Error> verdict() const;
  // Whether something has ended, so that a verdict comes within seconds. [any-thread; does not block; cannot fail]
  bool trouble() const;
  // Looks now and not at the next tick. [any-thread; does not block; cannot fail]
  void wake();
  // Waits for the verdict when there is trouble; none: all is well. [any-thread; blocks; cannot fail]
  std::optional<Error> await_verdict();

 private:
  struct Answers;
  struct Carried {
    uint64_t number = 0, value = 0;
    runtime::Hold stream{};
    std::string words{};
  };

  void run();
  bool pause();
  Status first_trouble() const;
  std::optional<Carried> oldest();
  Status compare_oldest();
  Status tell(const std::string& what, std::string_view value);
  Error found_out(const Status& seen);
  Result<Answers> hear();
  Error judged(const Status& seen, const Answers& answers) const;
  Error verdict_of_others(const Status& seen);
  Error alone(const Status& seen, const Status& store);
  Status answer();
  void settle(Error cause);
  std::string key(const std::string& what) const { return key_ + "/" + what; }
  std::string key(const char* what, uint32_t rank) const { return key(what) + "/" + std::to_string(rank); }

  Store store_;
  const std::string key_, name_;
  const uint32_t rank_, size_;
  const std::optional<uint32_t> keeper_;
  const std::chrono::nanoseconds grace_;  // for answers
  mutable std::mutex parts_mutex_;        // held while parts are asked, so that none is destroyed then
  std::vector<Part> watched_;

  mutable std::mutex mutex_;
  std::condition_variable wakes_;
  bool stopping_ = false, woken_ = false;
  std::optional<Error> asked_, verdict_;
  uint64_t submitted_ = 0;         // groups with collectives
  std::deque<std::string> notes_;  // of the last of them
  bool noted_ = false;             // the last group was one of them
  std::deque<Carried> carried_;    // what is not known to have ended
  bool alone_ = false;             // the store is no help any more
  // Of the oldest of `carried_`; what others have in its place, in words. Its own thread's.
  Pace pace_;
  std::string difference_{};
  std::thread thread_;
};

}  // namespace tenon::comm
