// SPDX-License-Identifier: Apache-2.0
// scheduler.cpp: what callers ask of lanes; how commands are picked and run is in worker.cpp.
#include "scheduler.hpp"

#include <tenon/author/text.hpp>

#include <algorithm>

namespace tenon::sim {

using author::text;
using Kind = Command::Kind;

Scheduler::Scheduler(const Profile& profile) : profile_(profile), random_(profile.seed) {}

std::shared_ptr<Lane> Scheduler::open(Card& card) {
  const Lock lock(mutex_);
  auto lane = std::make_shared<Lane>();
  lane->card = &card;
  lane->gaps.seed(profile_.seed * 1'000'003 + ++opened_);
  lanes_.push_back(lane);
  return lane;
}

Status Scheduler::close(const std::shared_ptr<Lane>& lane, bool abandon) {
  Lock lock(mutex_);
  if (abandon) drop_queue(*lane);
  if (abandon && lane->let_go) lane->let_go(true);
  await(lock, [&] { return lane->idle(); });
  const auto unkept = static_cast<uint64_t>(
      std::ranges::count_if(lane->promises, [](const Promise& p) { return !p.kept.has_value(); }));
  lane->promises.clear();
  lane->reached = lane->issued;  // whoever waits for what never came goes on
  std::erase(lanes_, lane);
  progress_.notify_all();
  worker_wakes_.notify_one();
  if (lane->failure && !lane->failure_told) return Status(*lane->failure);
  if (unkept == 0 || abandon) return {};
  return Status(TN_INVALID,
                text(unkept, " promises of this stream were never kept; whoever waits for them goes on"));
}

// The stream's failure, as every later call tells it.
Status Scheduler::told(Lane& lane) const {
  lane.failure_told = true;
  return Status(*lane.failure);
}

Status Scheduler::refusal(Lane& lane) const {
  if (lane.failure) return told(lane);
  const Bound bound(*lane.card);
  return lane.card->alive();
}

void Scheduler::push(Lane& lane, Command command) {
  lane.queue.push_back(std::move(command));
  lane.clean = false;
  lane.worked = true;
  touched();
}

void Scheduler::settle(Lock& lock, Lane& lane) {
  if (profile_.synchronous) await(lock, [&] { return lane.idle(); });
}

Status Scheduler::post(Lane& lane, Command command) {
  Lock lock(mutex_);
  TN_TRY(refusal(lane));
  if (lane.promising) {
    return Status(TN_INVALID, "this stream carries promises, and so no other work: use another stream");
  }
  push(lane, std::move(command));
  settle(lock, lane);
  return {};
}

// A record needs an event of the device: waits for one, or says that there is none.
Status Scheduler::room_for_record(Lock& lock, Lane& lane) {
  const auto there_is = [&] { return lane.card->records < profile_.max_records || lane.failure; };
  if (profile_.max_records == 0 || there_is()) return {};
  if (!profile_.record_blocks) {
    return Status(TN_NO_MEMORY, text(lane.card->records.load(), " of at most ", profile_.max_records,
                                     " records of device 'sim:", lane.card->ordinal(),
                                     "' are outstanding: sync one, and record again"));
  }
  await(lock, there_is);
  return refusal(lane);
}

Result<uint64_t> Scheduler::record(Lane& lane, bool timed) {
  Lock lock(mutex_);
  TN_TRY(refusal(lane));
  if (lane.promising || (lane.clean && !timed)) return lane.issued;
  TN_TRY(room_for_record(lock, lane));
  const uint64_t value = next_value(lane);
  push(lane, {.kind = Kind::mark, .value = value, .timed = timed});
  ++lane.card->records;
  lane.clean = true;
  settle(lock, lane);
  return value;
}

Status Scheduler::wait(Lane& lane, const std::shared_ptr<Lane>& other, uint64_t value) {
  Lock lock(mutex_);
  TN_TRY(refusal(lane));
  if (other->reached >= value) return {};
  if (lane.promising) return Status(TN_INVALID, "this stream carries promises, and so does not wait");
  push(lane, {.kind = Kind::wait, .value = value, .other = other});
  settle(lock, lane);
  return {};
}

void Scheduler::complete(const std::shared_ptr<Lane>& lane, const Status& said) {
  const Lock lock(mutex_);
  finished(*lane, said);
  progress_.notify_all();
  worker_wakes_.notify_one();
}

bool Scheduler::press_on(const std::function<bool()>& met, uint64_t timeout_ns) {
  Lock lock(mutex_);
  return await(lock, met, timeout_ns);
}

Result<uint64_t> Scheduler::completed(Lane& lane) {
  Lock lock(mutex_);
  if (lane.failure) return told(lane);
  if (!profile_.event_query) return lane.told;
  if (!lane.idle()) {
    ++credit_;
    worker_wakes_.notify_one();
  }
  return lane.reached;
}

Status Scheduler::sync(Lane& lane, uint64_t value, uint64_t timeout_ns) {
  Lock lock(mutex_);
  const auto met = [&] { return lane.reached >= value; };
  const bool asks = timeout_ns == 0;
  if (asks && !met() && !lane.idle()) {
    ++credit_;
    worker_wakes_.notify_one();
  }
  if (asks ? !met() : !await(lock, met, timeout_ns)) {
    return Status(TN_TIMEOUT, text("value ", value, " was not reached in ", timeout_ns,
                                   " ns; the stream is at ", lane.reached));
  }
  lane.told = std::max(lane.told, value);
  if (lane.failure && value > lane.failed_after) return told(lane);
  return {};
}

Result<uint64_t> Scheduler::timestamp(Lane& lane, uint64_t value) {
  const Lock lock(mutex_);
  if (const auto stamp = lane.stamps.find(value); stamp != lane.stamps.end()) return stamp->second;
  if (lane.failure && value > lane.failed_after) return told(lane);
  return Status(TN_INVALID, text("value ", value,
                                 " has no time: record it with TN_RECORD_TIMED, sync it, and "
                                 "ask before 4096 newer ones; the stream is at ",
                                 lane.reached));
}

Result<uint64_t> Scheduler::promise(Lane& lane) {
  const Lock lock(mutex_);
  TN_TRY(refusal(lane));
  if (lane.worked) {
    return Status(TN_INVALID, "this stream has carried work, and so takes no promises: use one of its own");
  }
  lane.promising = true;
  lane.promises.push_back({.value = next_value(lane)});
  return lane.issued;
}

Status Scheduler::signal(Lane& lane, uint64_t value, int32_t code) {
  const Lock lock(mutex_);
  const auto found = std::ranges::find(lane.promises, value, &Promise::value);
  if (found == lane.promises.end() || found->kept) {
    return Status(TN_INVALID, text("value ", value,
                                   " of this stream is no open promise: never promised, or "
                                   "kept before"));
  }
  found->kept = code;
  while (!lane.promises.empty() && lane.promises.front().kept && !lane.failure) {
    const Promise first = lane.promises.front();
    lane.promises.pop_front();
    if (*first.kept == TN_OK) {
      lane.reached = first.value;
    } else {
      fail(lane, {.code = *first.kept,
                  .message = text("promise ", first.value, " was kept with ", code_name(*first.kept))});
    }
  }
  progress_.notify_all();
  touched();
  worker_wakes_.notify_one();
  return {};
}

}  // namespace tenon::sim
