// SPDX-License-Identifier: Apache-2.0
// feeder.cpp: see feeder.hpp.
#include "loader/feeder.hpp"

#include "base/clock.hpp"
#include "base/text.hpp"

#include <algorithm>
#include <system_error>

namespace tenon::loader {

Feeder::Feeder(ReadAhead& source, uint32_t slots, Send send) : source_(source), send_(std::move(send)) {
  sent_.reserve(slots);
}

Feeder::~Feeder() {
  if (thread_.joinable()) thread_.join();
}

Status Feeder::start() {
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    return Status(TN_NO_MEMORY, std::string("loader: no thread to feed the device: ") + error.what());
  }
  return {};
}

void Feeder::run() {
  for (;;) {
    Result<Filled> filled = source_.take();
    Status status = filled.ok() ? send_(*filled) : Status(Error(filled.error()));
    const std::lock_guard lock(mutex_);
    if (status.ok())
      sent_.push_back(*filled);
    else
      failure_ = std::move(status);
    wakes_.notify_one();
    if (!failure_.ok()) return;
  }
}

Result<Filled> Feeder::next(Timeout timeout) {
  const base::Deadline deadline(timeout);
  std::unique_lock lock(mutex_);
  while (sent_.empty() && failure_.ok()) {
    if (timeout != forever && deadline.passed()) {
      lock.unlock();
      return Status(TN_TIMEOUT, "loader: no batch within " +
                                    base::time_in_words(static_cast<double>(timeout.count())) + ", at " +
                                    source_.progress());
    }
    // In slices, because the longest times overflow what the library adds to its clock.
    wakes_.wait_for(lock, std::min<std::chrono::nanoseconds>(deadline.left(), std::chrono::hours(1)));
  }
  if (sent_.empty()) return Status(Error(failure_.error()));
  const Filled first = sent_.front();
  sent_.erase(sent_.begin());
  return first;
}

bool Feeder::ready() const {
  const std::lock_guard lock(mutex_);
  return !sent_.empty() || !failure_.ok();
}

}  // namespace tenon::loader
