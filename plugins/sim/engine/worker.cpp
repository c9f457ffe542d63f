// SPDX-License-Identifier: Apache-2.0
// worker.cpp: the scheduler's two threads: picking a command, running it, telling who waits.
//
// Invariant: the mutex is free while a command or a host call runs; `busy` keeps its lane still meanwhile.
#include "scheduler.hpp"

#include <tenon/author/text.hpp>

#include <algorithm>
#include <chrono>
#include <exception>

namespace tenon::sim {

using author::text;
using Kind = Command::Kind;

namespace {

constexpr size_t stamps_kept = 4096;

// Longer than any process lives, and short enough to be added to a clock.
std::chrono::nanoseconds patience(uint64_t ns) {
  return std::chrono::nanoseconds(std::min<uint64_t>(ns, uint64_t{1} << 60));
}

// Runs what a caller enqueued; whatever escapes becomes a failure of its stream.
Status attempt(const std::function<Status()>& run) noexcept {
  try {
    return run();
  } catch (const std::bad_alloc&) {
    return Status(TN_NO_MEMORY, "out of host memory while a command ran: free some");
  } catch (const std::exception& escaped) {
    return Status(TN_INTERNAL, text("an exception escaped from a command: ", escaped.what()));
  } catch (...) {
    return Status(TN_INTERNAL, "an exception that is no std::exception escaped from a command");
  }
}

}  // namespace

bool Scheduler::await(Lock& lock, const Demand& met, uint64_t timeout_ns) {
  if (met()) return true;
  start_threads();
  const auto demand = demands_.insert(demands_.end(), met);
  worker_wakes_.notify_one();
  bool done = true;
  if (timeout_ns == never) {
    progress_.wait(lock, met);
  } else {
    done = progress_.wait_for(lock, patience(timeout_ns), met);
  }
  demands_.erase(demand);
  return done;
}

void Scheduler::start_threads() {
  if (stopping_ || worker_.joinable()) return;
  worker_ = std::thread([this] { serve(); });
  caller_ = std::thread([this] { serve_calls(); });
}

void Scheduler::touched() {
  touched_ns_ = driver::now_ns();
  start_threads();
  if (!armed_) worker_wakes_.notify_one();
}

bool Scheduler::wanted() const {
  if (credit_ > 0 || driver::now_ns() - touched_ns_ >= profile_.idle_ms * 1'000'000) return true;
  return std::ranges::any_of(demands_, [](const Demand& met) { return !met(); });
}

std::vector<size_t> Scheduler::choices() const {
  std::vector<size_t> out;
  for (size_t i = 0; i < lanes_.size(); ++i) {
    const Lane& lane = *lanes_[i];
    if (lane.busy || lane.queue.empty()) continue;
    const Command& first = lane.queue.front();
    if (first.kind == Kind::wait && first.other->reached < first.value) continue;
    if (first.kind == Kind::exchange && first.ended->load() + 1 < first.value) continue;
    out.push_back(i);
  }
  return out;
}

void Scheduler::serve() {
  Lock lock(mutex_);
  while (!stopping_) {
    const auto open = choices();
    if (open.empty()) credit_ = 0;
    if (open.empty() || !wanted()) {
      doze(lock);
      continue;
    }
    if (credit_ > 0) --credit_;
    const std::shared_ptr<Lane> lane = lanes_[open[random_() % open.size()]];
    run_first(lock, lane);
    progress_.notify_all();
  }
}

void Scheduler::doze(Lock& lock) {
  if (choices().empty()) {
    worker_wakes_.wait(lock);
    return;
  }
  const uint64_t idle = profile_.idle_ms * 1'000'000, quiet = driver::now_ns() - touched_ns_;
  if (quiet >= idle) return;
  armed_ = true;
  worker_wakes_.wait_for(lock, patience(idle - quiet));
  armed_ = false;
}

void Scheduler::run_first(Lock& lock, const std::shared_ptr<Lane>& lane) {
  Command command = std::move(lane->queue.front());
  lane->queue.pop_front();
  if (command.kind == Kind::wait) return;
  if (command.kind == Kind::mark) {
    reach(*lane, command);
    return;
  }
  lane->busy = true;
  if (command.kind == Kind::call) {
    calls_.emplace_back(lane, std::move(command));
    caller_wakes_.notify_one();
    return;
  }
  const bool exchanges = command.kind == Kind::exchange;
  if (exchanges) lane->let_go = command.skipped;
  lock.unlock();
  const Bound bound(*lane->card);
  Status result = lane->card->before_command();
  if (result.ok()) result = attempt(command.run);
  command.run = nullptr;
  lock.lock();
  if (exchanges && result.ok()) return;  // `complete` ends it, or has
  if (exchanges) command.skipped(false);
  finished(*lane, result);
}

void Scheduler::serve_calls() {
  Lock lock(mutex_);
  for (;;) {
    caller_wakes_.wait(lock, [&] { return stopping_ || !calls_.empty(); });
    if (calls_.empty()) return;
    auto [lane, command] = std::move(calls_.front());
    calls_.pop_front();
    lock.unlock();
    const Status result = attempt(command.run);
    lock.lock();
    finished(*lane, result);
    progress_.notify_all();
    worker_wakes_.notify_one();
  }
}

void Scheduler::finished(Lane& lane, const Status& result) {
  lane.busy = false;
  lane.let_go = nullptr;
  if (result.ok()) return;
  if (result.code() != TN_DEVICE_LOST) return fail(lane, result.error());
  for (const auto& each : lanes_) {
    if (each->card == lane.card) fail(*each, result.error());
  }
}

void Scheduler::reach(Lane& lane, const Command& mark) {
  lane.reached = mark.value;
  --lane.card->records;
  if (!mark.timed) return;
  const uint64_t last = lane.stamps.empty() ? 0 : lane.stamps.rbegin()->second;
  lane.stamps[mark.value] = std::max(driver::now_ns(), last + 1);
  if (lane.stamps.size() > stamps_kept) lane.stamps.erase(lane.stamps.begin());
}

void Scheduler::fail(Lane& lane, const Error& why) {
  if (lane.failure) return;
  lane.failure = why;
  lane.failure->flags |= TN_ERROR_ASYNC;
  lane.failed_after = lane.reached;
  drop_queue(lane);
  lane.reached = lane.issued;  // passed over: nobody waits for ever
}

void Scheduler::drop_queue(Lane& lane) {
  for (const Command& command : lane.queue) {
    if (command.kind == Kind::mark) --lane.card->records;
    if (command.kind == Kind::exchange) command.skipped(false);
  }
  lane.queue.clear();
}

void Scheduler::quiesce() {
  const std::lock_guard one(quiesce_mutex_);
  Lock lock(mutex_);
  const auto quiet = [this] {
    return choices().empty() && std::ranges::none_of(lanes_, [](const auto& lane) { return lane->busy; });
  };
  await(lock, quiet);
  for (const auto& lane : lanes_) lane->told = lane->reached;
  stopping_ = true;
  worker_wakes_.notify_all();
  caller_wakes_.notify_all();
  std::thread worker = std::move(worker_), caller = std::move(caller_);
  lock.unlock();
  if (worker.joinable()) worker.join();
  if (caller.joinable()) caller.join();
  lock.lock();
  stopping_ = false;
  if (!demands_.empty() || !choices().empty()) start_threads();
}

}  // namespace tenon::sim
