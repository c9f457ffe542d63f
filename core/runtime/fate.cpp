// SPDX-License-Identifier: Apache-2.0
// fate.cpp: whether a value of a stream was reached, and whether what was computed up to it can be trusted.
//
// A query costs little and may lag behind what is reached; a sync with a timeout of 0 does not. Whoever asks until the
// answer is yes needs both, whoever can go on with a no takes a glance.
// Invariant: waits name values recorded before them, so the values form no cycle even where the streams do; entries are
// settled oldest first, which keeps the recursion as shallow as there are streams.
#include "plugin/early.hpp"
#include "runtime/timeline.hpp"

#include <algorithm>
#include <thread>

namespace tenon::runtime {
namespace {

// A failure of query or sync is the stream's verdict unless it only says that the question was wrong or came too early.
bool is_verdict(int32_t code, uint32_t flags) noexcept {
  if ((flags & TN_ERROR_ASYNC) != 0) return true;
  return code != TN_INVALID && code != TN_BUSY && code != TN_NO_MEMORY && code != TN_UNSUPPORTED;
}

// The stream has ended or is just ending: its verdict is final soon.
Fate after_end(Timeline& line, const Deadline& deadline) {
  while (line.phase.load(std::memory_order_seq_cst) != Phase::closed) {
    if (deadline.passed()) return Fate::pending;
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  const Poison* poison = line.poison.load(std::memory_order_acquire);
  return poison == nullptr ? Fate::reached : Fate::lost;
}

// The plugin's word on its own stream alone; `newest` is what it is known to have reached by itself.
Fate ask(Timeline& line, uint64_t value, const Deadline& deadline, uint64_t& newest, Status& why) {
  Status failure;
  {
    const Pin pin(line);
    if (!pin) return after_end(line, deadline);
    tn_error error = no_error();
    if (!deadline.blocks()) {
      if (line.api->query(line.handle, &newest, &error) != TN_OK) {
        newest = 0;
        error = no_error();
      } else if (newest >= value) {
        return Fate::reached;
      } else if (deadline.glances()) {
        return Fate::pending;
      }
    }
    const int32_t code = line.api->sync(line.handle, value, deadline.left_ns(), &error);
    if (code == TN_OK) return newest = value, Fate::reached;
    if (plugin::is_early(code, error)) return Fate::pending;
    failure = status_of(code, error);
  }
  if (is_verdict(failure.code(), failure.error().flags)) {
    Error cause = failure.error();
    if (!find_cause(line, cause, deadline)) return Fate::pending;
    poison(line, cause);
    return Fate::lost;
  }
  why = std::move(failure);
  return Fate::refused;
}

// Locks `settling`; without a deadline to wait for, only if nobody else is at it.
std::unique_lock<std::mutex> enter(Timeline& line, const Deadline& deadline) {
  return deadline.blocks() ? std::unique_lock(line.settling)
                           : std::unique_lock(line.settling, std::try_to_lock);
}

// Settles what the values of `line` up to `value` depend on; those up to `sound` depend on nothing any more.
Fate settle(Timeline& line, uint64_t value, const Deadline& deadline, Status& why, uint64_t& sound) {
  for (sound = value; !line.upstream.empty();) {
    Hold source;
    Upstream wait;
    uint64_t place = 0;
    if (const auto lock = enter(line, deadline)) {
      const Upstream* oldest = line.upstream.front();
      if (oldest == nullptr || oldest->since >= value) break;
      wait = *oldest;
      place = line.upstream.popped();
      source = Hold(wait.source);
    } else {
      sound = 0;
      return Fate::pending;
    }
    const Fate fate = judge(*source, wait.value, deadline, why);
    if (fate == Fate::lost) carry(line, *source, wait.since);
    if (fate != Fate::reached) {
      sound = wait.since;
      return fate;
    }
    const auto lock = enter(line, deadline);
    if (!lock || line.upstream.popped() != place || line.upstream.front() == nullptr) continue;
    line.upstream.pop();
    drop(*source);
  }
  return Fate::reached;
}

}  // namespace

void raise(Timeline& line, uint64_t value) noexcept {
  uint64_t known = line.reached.load(std::memory_order_relaxed);
  while (known < value && !line.reached.compare_exchange_weak(known, value, std::memory_order_acq_rel)) {
  }
}

Fate judge(Timeline& line, uint64_t value, const Deadline& deadline, Status& why) {
  if (value <= line.reached.load(std::memory_order_acquire)) return Fate::reached;
  const Poison* known = line.poison.load(std::memory_order_acquire);
  if (known != nullptr && known->carried && value > known->since) return Fate::lost;
  uint64_t newest = 0, sound = 0;
  Fate fate = ask(line, value, deadline, newest, why);
  // A wait is remembered before the next value is recorded, so this comes before the look at what was remembered.
  const uint64_t recorded = line.recorded.load(std::memory_order_acquire);
  if (fate == Fate::reached) {
    fate = settle(line, value, deadline, why, sound);
    raise(line, std::min(value, sound));
  }
  const uint64_t more = std::min(newest, recorded);
  if (more > line.reached.load(std::memory_order_relaxed) && line.healthy()) {
    Status unasked;
    static_cast<void>(settle(line, more, Deadline::glance(), unasked, sound));
    raise(line, std::min(more, sound));
  }
  return fate;
}

bool finished(Timeline& line, uint64_t value, const Deadline& deadline) noexcept {
  if (value <= line.reached.load(std::memory_order_acquire)) return true;
  const Pin pin(line);
  if (!pin) return line.phase.load(std::memory_order_acquire) == Phase::closed;
  uint64_t newest = 0;
  // A stream that failed answers no query, but knows what it had reached before.
  if (line.api->query(line.handle, &newest, nullptr) == TN_OK) {
    if (newest >= value) return true;
    if (deadline.glances()) return false;
  }
  return line.api->sync(line.handle, value, deadline.left_ns(), nullptr) == TN_OK;
}

}  // namespace tenon::runtime
