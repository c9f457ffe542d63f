// SPDX-License-Identifier: Apache-2.0
// worker.cpp: serving, idling, parking and stopping.
//
// Parking is the rare side of driver::Fence: the worker announces itself in `state_`, then looks at the queue again; the
// feeding thread publishes, then looks at `state_`. One of the two sees the other.
// Invariant: a thread that has ended left `state_` at `stopped`, and the queue empty.
#include "worker.hpp"

#include "capture.hpp"
#include "transfer.hpp"

#include <tenon/author/text.hpp>

#include <exception>
#include <system_error>

namespace tenon::cpu {

using author::text;

Worker::Worker(Crew& crew, std::vector<int> processors, std::string name)
    : timeline_(new Timeline), team_(crew), processors_(std::move(processors)), name_(std::move(name)) {}

Worker::~Worker() { timeline_->release(); }

void Worker::rouse() noexcept {
  uint32_t state = parked;
  if (state_.compare_exchange_strong(state, running)) {
    driver::wake_all(state_);
    return;
  }
  if (state != stopped) return;
  const std::lock_guard lock(thread_mutex_);
  if (state_.load() == stopped) start_locked();
}

void Worker::start_locked() noexcept {
  if (thread_.joinable()) thread_.join();
  stopping_.store(false);
  state_.store(running);
  try {
    thread_ = std::thread([this] { serve(); });
  } catch (const std::system_error& refused) {
    const uint64_t first = timeline_->progress() + 1;
    timeline_->fail(first, Error{.code = TN_NO_MEMORY,
                                 .message = "no thread for a stream: end threads or streams",
                                 .domain = "errno",
                                 .native_code = refused.code().value()});
    state_.store(stopped);
    for (uint64_t value = first; value <= queue_.published(); ++value)
      serve_one(queue_.slot(value - 1), value);
  }
}

void Worker::stop() noexcept {
  const std::lock_guard lock(thread_mutex_);
  if (!thread_.joinable()) return;
  stopping_.store(true);
  driver::Fence::heavy();
  uint32_t state = parked;
  if (state_.compare_exchange_strong(state, running)) driver::wake_all(state_);
  thread_.join();
}

void Worker::abandon() noexcept {
  abandoned_.store(true);
  const std::lock_guard lock(waiting_mutex_);
  if (waiting_for_ != nullptr) waiting_for_->disturb();
}

void Worker::serve() noexcept {
  driver::name_thread(name_.c_str());
  if (!processors_.empty()) driver::keep_on(processors_);
  // On one processor a thread that feeds many commands would otherwise be interrupted by each.
  if (driver::affinity_count() < 2) driver::let_wakers_go_on();
  const TeamSize size(team_.threads());
  uint64_t served = timeline_->progress();
  for (;;) {
    const uint64_t published = queue_.published();
    if (published == served && !idle(served)) return dismiss_team();
    for (; served < published; ++served) serve_one(queue_.slot(served), served + 1);
  }
}

// Waits for work. False when the thread is to end.
bool Worker::idle(uint64_t served) noexcept {
  const auto wanted = [&] {
    return queue_.published() != served || stopping_.load(std::memory_order_relaxed);
  };
  if (!spin_until(Spinner::Worker, wanted)) park(served);
  if (queue_.published() != served || !stopping_.load()) return true;
  state_.store(stopped);
  driver::Fence::heavy();
  if (queue_.published() == served) return false;
  state_.store(running);
  return true;
}

void Worker::park(uint64_t served) noexcept {
  state_.store(parked);
  driver::Fence::heavy();
  if (queue_.published() != served || stopping_.load()) {
    state_.store(running);
    return;
  }
  while (state_.load() == parked) driver::sleep_on(state_, parked, driver::never);
}

void Worker::serve_one(Command& command, uint64_t value) noexcept {
  const bool skip = timeline_->failed() || abandoned_.load(std::memory_order_relaxed);
  if (command.kind == Command::Kind::Wait) {
    if (!skip) wait_for(command.wait);
    command.wait.timeline->release();
  } else if (!skip) {
    run_or_poison(command, value);
  } else if (command.kind == Command::Kind::Errand) {
    command.errand.errand->skip();
  }
  if (command.kind == Command::Kind::Replay) command.replay.tape->release();
  queue_.release_arena(command.arena_end);
  timeline_->advance(value);
}

// Exceptions of kernels and host calls end here. Words take memory; when there is none the code alone is kept.
void Worker::run_or_poison(Command& command, uint64_t value) noexcept {
  Error error;
  try {
    try {
      const Status done = execute(command, value);
      if (done.ok()) [[likely]]
        return;
      error = done.error();
    } catch (const std::bad_alloc&) {
      error.code = TN_NO_MEMORY;
      error.message = "no host memory";
    } catch (const std::exception& escaped) {
      error.message = text("the work threw ", escaped.what());
    } catch (...) {
      error.message = "the work threw something that is no std::exception";
    }
    error.message = text("stream '", name_, "', value ", value, ": ", error.message);
  } catch (...) {
    error.code = TN_NO_MEMORY;
  }
  timeline_->fail(value, std::move(error));
}

Status Worker::execute(const Command& command, uint64_t value) {
  switch (command.kind) {
    case Command::Kind::Launch: {
      const LaunchCommand& launch = command.launch;
      return launch.runnable->run(launch.bindings != nullptr ? launch.bindings : launch.own, launch.workspace,
                                  team_);
    }
    case Command::Kind::Copy:
      transfer(command.copy, team_);
      return {};
    case Command::Kind::Fill:
      transfer(command.fill, team_);
      return {};
    case Command::Kind::Box:
      transfer(command.box, team_);
      return {};
    case Command::Kind::Call:
      command.call.call(command.call.argument);
      return {};
    case Command::Kind::Errand:
      return command.errand.errand->run();
    case Command::Kind::Stamp:
      stamps_.write(value, driver::now_ns());
      return {};
    case Command::Kind::Replay:
      for (const Taped& step : command.replay.tape->steps()) TN_TRY(execute(step.command, value));
      return {};
    case Command::Kind::Wait:
      return {};
  }
  return {};
}

void Worker::wait_for(const WaitCommand& wait) noexcept {
  const auto over = [&] {
    return wait.timeline->progress() >= wait.value || abandoned_.load(std::memory_order_relaxed);
  };
  if (spin_until(Spinner::Worker, over)) return;
  {
    const std::lock_guard lock(waiting_mutex_);
    waiting_for_ = wait.timeline;
  }
  (void)wait.timeline->sleep_until(wait.value, driver::never, &abandoned_);
  const std::lock_guard lock(waiting_mutex_);
  waiting_for_ = nullptr;
}

}  // namespace tenon::cpu
