// SPDX-License-Identifier: Apache-2.0
// abort_relay.cpp: see abort_relay.hpp.
#include "comm/abort_relay.hpp"

#include <algorithm>
#include <utility>

namespace tenon::comm {
namespace {

using namespace std::chrono_literals;

constexpr auto first_pause = 100ms, longest_pause = 500ms;
constexpr auto brief_pause = 200ms;  // the longest at first, while it may be found out that ranks never go on
constexpr auto brief = 3s;
constexpr const char* entry = "/aborted";  // behind a communicator's key
constexpr char mismatch = '=';             // begins what is told of one, where else a rank's number stands
constexpr auto longest_answer = 500ms;     // of the store, which may be a network away, or gone

}  // namespace

AbortRelay::AbortRelay(const detail::CommState& comm, const Flight& flight, std::function<void()> end)
    : store_(comm.store),
      place_(comm.key + entry),
      told_("communicator '" + comm.options.name + "', rank " + std::to_string(comm.rank) + ": rank "),
      rank_(comm.rank),
      flight_(flight),
      end_(std::move(end)),
      inquest_(comm, flight) {
  thread_ = std::thread([this] { run(); });
}

void AbortRelay::follow(runtime::Timeline& line) {
  inquest_.membership.carry(line);
  const std::lock_guard lock(mutex_);
  courses_.push_back({.line = runtime::Hold(&line)});
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

void AbortRelay::name(Error& end) const noexcept {
  const bool waited = end.code == TN_TIMEOUT || end.code == TN_PEER_LOST;
  if (!waited && end.code != TN_ABORTED) return;
  try {
    const std::lock_guard lock(mutex_);
    if (first_ && first_->starts_with(mismatch)) {
      end.message = first_->substr(1);
      end.code = TN_MISMATCH;
    } else if (waited) {
      inquest_.name_absent(end);
    } else if (first_) {
      end.message = told_ + *first_ + " aborted";
    }
  } catch (const std::bad_alloc&) {  // then the plugin's words serve
  }
}

// A rank that was told of a mismatch may have left since: whoever said what it waits for asks before it believes that it lost that rank.
bool AbortRelay::settled(Error& end) noexcept {
  if (end.code == TN_ABORTED || (end.code == TN_PEER_LOST && inquest_.has_said())) {
    const std::lock_guard lock(mutex_);
    if (!first_ && !answered_ && !over_ && thread_.joinable()) {
      asked_ = true;
      changed_.notify_all();
      return false;
    }
  }
  name(end);
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
  inquest_.membership.leave();
  const std::lock_guard lock(mutex_);
  courses_.clear();
}

void AbortRelay::run() {
  auto pause = first_pause;
  auto since = Inquest::Time::max();  // when it last began to look
  for (;;) {
    bool asked = false;
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, pause, [this] { return over_ || asked_; });
      if (over_) return;
      asked = std::exchange(asked_, false);
    }
    const auto now = std::chrono::steady_clock::now();
    const bool stands = stands_still(), time = inquest_.is_time(stands, now);
    if (!asked && !stands && !time) {
      pause = first_pause;
      since = Inquest::Time::max();
      continue;
    }
    look();
    if (time) find_out(now);
    const std::lock_guard lock(mutex_);
    if (asked) answered_ = true;
    if (first_) return;
    since = std::min(since, now);
    pause = std::min(2 * pause, now - since < brief ? brief_pause : longest_pause);
  }
}

// What is found is told, and then looked for, as another may have been first.
void AbortRelay::find_out(Inquest::Time now) noexcept try {
  {
    const std::lock_guard lock(mutex_);
    if (first_) return;
  }
  const auto verdict = inquest_.hold(now);
  if (!verdict) return;
  for (const std::string& key : verdict->keys)
    static_cast<void>(
        store_.state()->set(key + entry, mismatch + verdict->message, base::Deadline(longest_answer)));
  look();
} catch (const std::bad_alloc&) {  // then the plugin's timeout ends it
}

// Whether some stream has work of which nothing has ended since this was asked last, whatever the others do. Of one whose newest
// work was not recorded only submits tell whether it goes on.
bool AbortRelay::stands_still() {
  const std::lock_guard lock(mutex_);
  const uint64_t groups = flight_.groups();
  const bool submitted = std::exchange(groups_, groups) != groups;
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
