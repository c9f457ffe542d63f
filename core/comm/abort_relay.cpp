// SPDX-License-Identifier: Apache-2.0
// abort_relay.cpp: see abort_relay.hpp.
#include "comm/abort_relay.hpp"

#include <algorithm>
#include <utility>

namespace tenon::comm {
namespace {

using namespace std::chrono_literals;

constexpr auto first_pause = 100ms, longest_pause = 500ms;
constexpr auto longest_answer = 500ms;  // of the store, which may be a network away, or gone

}  // namespace

AbortRelay::AbortRelay(const detail::CommState& comm, const Flight& flight, std::function<void()> end)
    : store_(comm.store),
      place_(comm.key + "/aborted"),
      told_("communicator '" + comm.options.name + "', rank " + std::to_string(comm.rank) + ": rank "),
      rank_(comm.rank),
      flight_(flight),
      end_(std::move(end)) {}

void AbortRelay::follow(runtime::Timeline& line) {
  const std::lock_guard lock(mutex_);
  courses_.push_back({.line = runtime::Hold(&line)});
  if (!thread_.joinable() && !over_) thread_ = std::thread([this] { run(); });
}

// Whoever was quicker has the entry, and is the cause of what follows here, too.
void AbortRelay::tell() noexcept {
  try {
    const Status told = store_.state()->set(place_, std::to_string(rank_), base::Deadline(longest_answer));
    if (told.code() == TN_INVALID) return look();
    const std::lock_guard lock(mutex_);
    if (!first_) first_ = std::to_string(rank_);
  } catch (const std::bad_alloc&) {  // then the others wait their timeout out
  }
}

void AbortRelay::name(Error& abort) const noexcept {
  try {
    const std::lock_guard lock(mutex_);
    if (first_) abort.message = told_ + *first_ + " aborted";
  } catch (const std::bad_alloc&) {  // then the plugin's words serve
  }
}

bool AbortRelay::settled(Error& abort) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (!first_ && !answered_ && !over_ && thread_.joinable()) {
      asked_ = true;
      changed_.notify_all();
      return false;
    }
  }
  name(abort);
  return true;
}

void AbortRelay::leave() noexcept {
  std::thread last;
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
    last = std::move(thread_);
  }
  changed_.notify_all();
  if (last.joinable()) last.join();
  const std::lock_guard lock(mutex_);
  courses_.clear();
}

void AbortRelay::run() {
  auto pause = first_pause;
  for (;;) {
    bool asked = false;
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, pause, [this] { return over_ || asked_; });
      if (over_) return;
      asked = std::exchange(asked_, false);
    }
    if (!asked && !stands_still()) {
      pause = first_pause;
      continue;
    }
    look();
    const std::lock_guard lock(mutex_);
    if (asked) answered_ = true;
    if (first_) return;
    pause = std::min(2 * pause, longest_pause);
  }
}

// Whether some stream has work of which nothing has ended since this was asked last, whatever the others do. Of one whose newest
// work was not recorded only submits tell whether it goes on.
bool AbortRelay::stands_still() {
  const std::lock_guard lock(mutex_);
  const bool submitted = std::exchange(groups_, flight_.groups()) != groups_;
  bool still = false;
  std::erase_if(courses_, [&](Course& course) {
    runtime::Timeline& line = *course.line;
    const runtime::Pin pin(line);
    if (!pin || !line.healthy()) return true;
    if (line.collects.load()) return false;
    uint64_t reached = 0;
    if (line.api->query(line.handle, &reached, nullptr) != TN_OK)
      return false;  // it has failed, which is told
    const bool some = line.unrecorded.load(std::memory_order_acquire) != 0;
    const uint64_t recorded = line.recorded.load(std::memory_order_acquire);
    const bool held = course.waits && reached == course.reached;
    still |= held && (reached < course.recorded || (recorded == course.recorded && !submitted));
    course = {
        .line = course.line, .recorded = recorded, .reached = reached, .waits = some || reached < recorded};
    return false;
  });
  return still;
}

// Its part ends after the cause is known, so that whoever is told of the end is told the cause.
void AbortRelay::look() {
  const auto said = store_.state()->look(place_, base::Deadline(longest_answer));
  if (!said.ok() || !*said) return;
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(first_, **said)) return;
  }
  end_();
}

}  // namespace tenon::comm
