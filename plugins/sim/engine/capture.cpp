// SPDX-License-Identifier: Apache-2.0
// capture.cpp: what has been seen by whom.
#include "capture.hpp"

#include <tenon/author/text.hpp>

#include <algorithm>

namespace tenon::sim {

using author::text;

void Recording::add(const Capturing& member, std::function<Status()> step,
                    std::shared_ptr<const void> owner) {
  const std::lock_guard lock(mutex_);
  owners_.insert(std::move(owner));
  ++clocks_[&member][&member];
  steps_.push_back(std::move(step));
}

void Recording::mark(const Capturing& member, uint64_t value) {
  const std::lock_guard lock(mutex_);
  marks_[{&member, value}] = clocks_[&member];
}

bool Recording::see(const Capturing& member, const Capturing& other, uint64_t value) {
  const std::lock_guard lock(mutex_);
  const auto mark = marks_.find({&other, value});
  if (mark == marks_.end()) return false;
  members_.insert(&member);
  for (const auto& [who, count] : mark->second) {
    uint64_t& seen = clocks_[&member][who];
    seen = std::max(seen, count);
  }
  return true;
}

void Recording::break_off(const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (broken_.empty()) broken_ = why;
}

void Recording::leave(const Capturing& member) {
  const std::lock_guard lock(mutex_);
  if (closed_) return;
  if (broken_.empty()) broken_ = "a stream was destroyed while it captured";
  members_.erase(&member);
}

Status Recording::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  if (!broken_.empty()) return Status(TN_INVALID, text("nothing was captured: ", broken_));
  for (const Capturing* member : members_) {
    const uint64_t done = clocks_[member][member], seen = clocks_[first_][member];
    if (seen == done) continue;
    return Status(TN_INVALID,
                  text("a stream that joined the capture has not rejoined: ", done - seen, " of its ", done,
                       " pieces of work were not waited for by the first stream"));
  }
  return {};
}

bool Recording::belongs_to(const void* owner) const {
  const std::lock_guard lock(mutex_);
  return std::ranges::all_of(owners_, [owner](const auto& each) { return each.get() == owner; });
}

bool Recording::closed() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

Status Recording::run() const {
  for (const auto& step : steps_) TN_TRY(step());
  return {};
}

std::shared_ptr<Recording> Capturing::recording() const {
  const std::lock_guard lock(mutex_);
  if (recording_ && recording_->closed()) recording_.reset();  // the first stream has ended it
  return recording_;
}

void Capturing::join(std::shared_ptr<Recording> recording) {
  const std::lock_guard lock(mutex_);
  recording_ = std::move(recording);
}

}  // namespace tenon::sim
