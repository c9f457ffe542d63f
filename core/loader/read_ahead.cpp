// SPDX-License-Identifier: Apache-2.0
// read_ahead.cpp: see read_ahead.hpp.
#include "loader/read_ahead.hpp"

#include "base/clock.hpp"
#include "base/text.hpp"

#include <algorithm>
#include <system_error>

namespace tenon::loader {
namespace {

// Of one batch, so that workers end together and yet lock seldom.
constexpr uint64_t runs_of_a_batch = 32;

}  // namespace

ReadAhead::ReadAhead(Order order, uint64_t batch, Cursor from, uint32_t all_slots,
                     std::span<const uint32_t> free, Work work)
    : work_(std::move(work)), order_(std::move(order)), next_(from), batches_(all_slots) {
  for (Filling& one : batches_) one.samples.resize(batch);
  free_.reserve(all_slots);
  queue_.reserve(all_slots);
  free_.assign(free.begin(), free.end());
}

ReadAhead::~ReadAhead() { stop(); }

Status ReadAhead::start(uint32_t workers) {
  threads_.reserve(workers);
  try {
    while (threads_.size() < workers) threads_.emplace_back([this] { work(); });
  } catch (const std::system_error& error) {
    return Status(TN_NO_MEMORY, "loader: no thread for worker " + std::to_string(threads_.size()) + " of " +
                                    std::to_string(workers) + ": " + error.what());
  }
  return {};
}

Result<Filled> ReadAhead::take() {
  std::unique_lock lock(mutex_);
  taker_wakes_.wait(lock,
                    [this] { return stopping_ || (!queue_.empty() && batches_[queue_.front()].left == 0); });
  if (stopping_) return Status(TN_ABORTED, "loader: stopped");
  const uint32_t slot = queue_.front();
  const Filling& batch = batches_[slot];
  if (!batch.status.ok()) return Status(Error(batch.status.error()));
  queue_.erase(queue_.begin());
  return Filled{.slot = slot, .at = batch.at, .share = batch.share};
}

void ReadAhead::give_back(uint32_t slot) {
  {
    const std::lock_guard lock(mutex_);
    free_.push_back(slot);
  }
  workers_wake_.notify_one();
}

void ReadAhead::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  workers_wake_.notify_all();
  taker_wakes_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

std::string ReadAhead::progress() const {
  const std::lock_guard lock(mutex_);
  const auto at = [](Cursor cursor) {
    return "step " + std::to_string(cursor.step) + " of epoch " + std::to_string(cursor.epoch);
  };
  if (queue_.empty()) return at(next_) + ": no sample is read, its memory is in use";
  const Filling& batch = batches_[queue_.front()];
  return at(batch.at) + ": " + std::to_string(batch.share.filled - batch.left) + " of " +
         base::counted(batch.share.filled, "sample") + " read";
}

void ReadAhead::work() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    Run run;
    if (claim(run))
      read_run(lock, run);
    else if (!opening_ && !failed_ && !free_.empty())
      open_next(lock);
    else
      workers_wake_.wait(lock);
  }
}

// The next samples of the earliest batch that has any to begin with.
bool ReadAhead::claim(Run& run) {
  for (const uint32_t slot : queue_) {
    Filling& batch = batches_[slot];
    if (batch.next == batch.share.filled) continue;
    const uint64_t most = std::max<uint64_t>(1, batch.share.filled / runs_of_a_batch);
    run = {.slot = slot, .begin = batch.next, .end = std::min(batch.share.filled, batch.next + most)};
    batch.next = run.end;
    return true;
  }
  return false;
}

void ReadAhead::open_next(std::unique_lock<std::mutex>& lock) {
  const uint32_t slot =
      free_.front();  // the one that came back first is the likeliest to be free on the device, too
  free_.erase(free_.begin());
  const Cursor at = next_;
  Filling& batch = batches_[slot];
  opening_ = true;
  lock.unlock();
  Status status = work_.open(slot, stopping_);
  const Share share = order_.samples(at, batch.samples);
  lock.lock();
  opening_ = false;
  batch.at = at;
  batch.share = share;
  batch.next = 0;
  batch.left = share.filled;
  batch.status = {};
  if (!status.ok()) {
    batch.next = share.filled;
    batch.left = 0;
    fail(batch, 0, std::move(status));
  }
  next_ = order_.after(at);
  queue_.push_back(slot);
  workers_wake_.notify_all();
  taker_wakes_.notify_one();
}

void ReadAhead::read_run(std::unique_lock<std::mutex>& lock, const Run& run) {
  Filling& batch = batches_[run.slot];
  const uint64_t epoch = batch.at.epoch;
  lock.unlock();
  const uint64_t began = base::now_ns();
  Status status;
  uint64_t place = run.begin;
  while (place < run.end && !stopping_) {
    status = work_.read({.slot = run.slot, .place = place, .sample = batch.samples[place], .epoch = epoch});
    if (!status.ok()) break;
    ++place;
  }
  read_ns_.fetch_add(base::now_ns() - began, std::memory_order_relaxed);
  lock.lock();
  if (!status.ok()) fail(batch, place, std::move(status));
  batch.left -= run.end - run.begin;
  if (batch.left == 0) taker_wakes_.notify_one();
}

// Keeps the failure of the first sample that has one, so that the same data fails the same way.
void ReadAhead::fail(Filling& batch, uint64_t place, Status status) {
  if (batch.status.ok() || place < batch.failed) {
    batch.status = std::move(status);
    batch.failed = place;
  }
  failed_ = true;
}

}  // namespace tenon::loader
