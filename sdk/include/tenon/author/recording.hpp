// SPDX-License-Identifier: Apache-2.0
// recording.hpp: work that is collected instead of run, for plugins whose device captures nothing by itself.
//
// A stream joins by waiting for a captured value, and has rejoined when the first stream has, directly or not, waited for
// all of its work. Each stream keeps a vector clock of what it has seen; that is all the bookkeeping there is.
// Invariant: steps stand in the order in which they were enqueued, over all streams, in which they may run.
#pragma once

#include <tenon/author/text.hpp>
#include <tenon/result.hpp>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace tenon::author {

// Who has seen what. Streams are told apart by address. Its owner locks it.
class CaptureOrder {
 public:
  explicit CaptureOrder(const void* first) : first_(first) { members_.insert(first); }

  bool led_by(const void* member) const noexcept { return member == first_; }
  // `member` enqueued one more piece of work.
  void add(const void* member) { ++clocks_[member][member]; }
  void mark(const void* member, uint64_t value) { marks_[{member, value}] = clocks_[member]; }
  // Whether `value` of `other` was marked here; then `member`, which joins, has seen what it stands for.
  bool see(const void* member, const void* other, uint64_t value) {
    const auto mark = marks_.find({other, value});
    if (mark == marks_.end()) return false;
    members_.insert(member);
    for (const auto& [who, count] : mark->second) {
      uint64_t& seen = clocks_[member][who];
      seen = std::max(seen, count);
    }
    return true;
  }
  void leave(const void* member) { members_.erase(member); }
  // TN_INVALID when a member has not rejoined.
  Status complete() {
    for (const void* member : members_) {
      const uint64_t done = clocks_[member][member], seen = clocks_[first_][member];
      if (seen == done) continue;
      return Status(TN_INVALID,
                    text("a stream that joined the capture has not rejoined: ", done - seen, " of its ", done,
                         " pieces of work were not waited for by the first stream"));
    }
    return {};
  }

 private:
  using Clock = std::map<const void*, uint64_t>;
  const void* first_;
  std::set<const void*> members_{};
  std::map<const void*, Clock> clocks_{};
  std::map<std::pair<const void*, uint64_t>, Clock> marks_{};
};

// One capture. Work that cannot be captured breaks it, and `close` says why. [any-thread, until it is closed]
template <class Step>
class Recording {
 public:
  explicit Recording(const void* first) : order_(first) {}

  void add(const void* member, Step step) {
    const std::lock_guard lock(mutex_);
    steps_.push_back(std::move(step));
    order_.add(member);
  }
  void mark(const void* member, uint64_t value) {
    const std::lock_guard lock(mutex_);
    order_.mark(member, value);
  }
  bool see(const void* member, const void* other, uint64_t value) {
    const std::lock_guard lock(mutex_);
    return order_.see(member, other, value);
  }
  void break_off(const std::string& why) {
    const std::lock_guard lock(mutex_);
    if (broken_.empty()) broken_ = why;
  }
  void leave(const void* member) {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    if (broken_.empty()) broken_ = "a stream was destroyed while it captured";
    order_.leave(member);
  }
  // TN_INVALID when work was not capturable or a member has not rejoined.
  Status close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    if (!broken_.empty()) return Status(TN_INVALID, text("nothing was captured: ", broken_));
    return order_.complete();
  }
  bool led_by(const void* member) const noexcept { return order_.led_by(member); }
  bool closed() const {
    const std::lock_guard lock(mutex_);
    return closed_;
  }
  // Once it is closed they do not change. [any-thread; does not block; cannot fail]
  const std::vector<Step>& steps() const noexcept { return steps_; }

 private:
  mutable std::mutex mutex_;
  CaptureOrder order_;
  std::vector<Step> steps_{};
  std::string broken_{};
  bool closed_ = false;
};

// A stream's part in a capture; other streams look at it when they wait. Its address is the stream's in a recording.
template <class Step>
class Capturing {
 public:
  using Tape = std::shared_ptr<Recording<Step>>;

  // Whether to look at `recording` at all: a load. [stream's thread]
  bool maybe() const noexcept { return maybe_.load(std::memory_order_relaxed); }
  // The open one, or nullptr. [any-thread]
  Tape recording() const {
    const std::lock_guard lock(mutex_);
    if (tape_ && tape_->closed()) {  // the first stream has ended it
      tape_.reset();
      maybe_.store(false, std::memory_order_relaxed);
    }
    return tape_;
  }

  // TN_BUSY when it captures already. Values above `newest` are the capture's. [stream's thread; may fail]
  Status begin(uint64_t newest) {
    if (recording()) return Status(TN_BUSY, "this stream is captured already: end that capture first");
    join(std::make_shared<Recording<Step>>(this), newest);
    return {};
  }
  // TN_INVALID when it captures nothing or what another stream began, and as Recording::close. [stream's thread; may fail]
  Result<Tape> end() {
    Tape tape = recording();
    if (!tape) return Status(TN_INVALID, "this stream is not being captured: begin first");
    if (!tape->led_by(this))
      return Status(TN_INVALID, "this stream joined the capture of another one: end it there");
    TN_TRY(tape->close());
    return tape;
  }
  // TN_INVALID inside a capture, which is broken then; `what` cannot be in one. [stream's thread; may fail]
  Status refuse(const char* what) {
    if (!maybe()) return {};
    const Tape tape = recording();
    if (!tape) return {};
    tape->break_off(text(what, " cannot be captured"));
    return Status(TN_INVALID,
                  text("this stream is being captured, and ", what, " cannot be: do it before or after"));
  }
  // Whether a wait for `value` of `other` is inside one capture: this stream, whose newest value is `newest`, joins it, or takes
  // the other back. [stream's thread]
  bool see(const Capturing& other, uint64_t value, uint64_t newest) {
    const Tape mine = recording(), theirs = other.recording();
    if (!theirs || (mine && mine != theirs) || !theirs->see(this, &other, value)) return false;
    if (!mine) join(theirs, newest);
    return true;
  }
  // Of a value that the timeline has reached, how much of it holds outside: those of a capture that goes on are not reached.
  // [any-thread]
  uint64_t outside(uint64_t reached) const {
    return maybe() && recording() ? std::min(reached, newest_.load(std::memory_order_relaxed)) : reached;
  }
  // TN_INVALID for a value of a capture that goes on, for which nobody can wait. [any-thread; may fail]
  Status check_outside(uint64_t value) const {
    if (outside(value) == value) return {};
    return Status(
        TN_INVALID,
        text("value ", value,
             " was recorded in a capture that is going on: it is reached by no work of its own; end "
             "the capture first"));
  }
  // The stream ends. [stream's thread]
  void leave() {
    if (const Tape tape = recording()) tape->leave(this);
  }

 private:
  void join(Tape tape, uint64_t newest) {
    const std::lock_guard lock(mutex_);
    tape_ = std::move(tape);
    newest_.store(newest, std::memory_order_relaxed);
    maybe_.store(true, std::memory_order_relaxed);
  }

  mutable std::mutex mutex_;
  mutable std::atomic<bool> maybe_{false};
  mutable Tape tape_{};
  std::atomic<uint64_t> newest_{0};  // outside the capture
};

}  // namespace tenon::author
