// SPDX-License-Identifier: Apache-2.0
// bridge.cpp: one thread for the whole process polls what is awaited and signals helper streams on the waiting side.
//
// Invariant: a job is judged and signalled under the mutex, so a stream that ends can take its jobs away safely. The
// thread holds husks only: it never ends a stream, and is gone when there is nothing to do.
#include "runtime/bridge.hpp"

#include "runtime/device_state.hpp"

#include <algorithm>
#include <condition_variable>
#include <thread>
#include <vector>

namespace tenon::runtime {
namespace {

struct Job {
  Timeline* line;  // whose promise it is; alive until it forgets its jobs
  uint64_t promise;
  Hold source;
  uint64_t value;
};

class Bridge {
 public:
  void add(Job job) {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
    if (!running_) std::thread([this] { run(); }).detach();
    running_ = true;
    wake_.notify_one();
  }

  bool forget(const Timeline& line) noexcept {
    const std::lock_guard lock(mutex_);
    return std::erase_if(jobs_, [&](const Job& job) { return job.line == &line; }) != 0;
  }

 private:
  static constexpr auto idle_limit = std::chrono::seconds(1);
  static constexpr uint32_t eager_rounds = 64;

  void run() {
    std::unique_lock lock(mutex_);
    for (uint32_t fruitless = 0;;) {
      if (jobs_.empty()) {
        if (!wake_.wait_for(lock, idle_limit, [this] { return !jobs_.empty(); })) break;
        fruitless = 0;
      }
      fruitless = sweep() ? 0 : fruitless + 1;
      rest(lock, fruitless);
    }
    running_ = false;
  }

  // Lets others in: at once while there is progress, then every 1 … 128 µs.
  void rest(std::unique_lock<std::mutex>& lock, uint32_t fruitless) {
    if (fruitless > eager_rounds) {
      const uint32_t doublings = std::min((fruitless - eager_rounds) / 16, 7u);
      wake_.wait_for(lock, std::chrono::microseconds(1u << doublings));
      return;
    }
    lock.unlock();
    std::this_thread::yield();
    lock.lock();
  }

  // One look at every job; of each waiting stream only the oldest unkept promise may be kept.
  bool sweep() {
    held_up_.clear();
    const auto done = [this](const Job& job) {
      if (std::find(held_up_.begin(), held_up_.end(), job.line) != held_up_.end()) return false;
      if (keep(job)) return true;
      held_up_.push_back(job.line);
      return false;
    };
    return std::erase_if(jobs_, done) != 0;
  }

  static bool keep(const Job& job) {
    Status why;
    int32_t code = TN_OK;
    switch (judge(*job.source, job.value, Deadline::now(), why)) {
      case Fate::pending:
        return false;
      case Fate::reached:
        break;
      case Fate::lost:
        code = told(*job.source).code();
        break;
      case Fate::refused:
        code = why.code();
        break;
    }
    job.line->api->signal(job.line->promises, job.promise, code, nullptr);
    return true;
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Job> jobs_;
  std::vector<const Timeline*> held_up_;
  bool running_ = false;
};

Bridge& the_bridge() {
  static Bridge& bridge = *new Bridge;  // its thread may outlast static destruction
  return bridge;
}

Status block(Timeline& line, Timeline& source, uint64_t value) {
  Status why;
  switch (judge(source, value, Deadline::never(), why)) {
    case Fate::refused:
      return why;
    case Fate::lost:
      carry(line, source, line.recorded.load(std::memory_order_relaxed));
      return told(line);
    default:
      return {};
  }
}

Status make_helper(Timeline& line) {
  const std::string name = "waits of " + line.name;
  const tn_stream_options options{
      .size = sizeof(tn_stream_options), .priority = 0, .name = name.c_str(), .next = nullptr};
  tn_error error = no_error();
  return status_of(line.api->create(line.device->handle, &options, &line.promises, &error), error);
}

}  // namespace

Status bridge(Timeline& line, Timeline& source, uint64_t value) {
  if (line.promises == nullptr) TN_TRY(make_helper(line));
  uint64_t promise = 0;
  tn_error error = no_error();
  int32_t code = line.api->promise(line.promises, &promise, &error);
  if (code == TN_UNSUPPORTED) return block(line, source, value);
  TN_TRY(status_of(code, error));
  code = line.api->wait(line.handle, line.promises, promise, &error);
  if (code != TN_OK) {
    line.api->signal(line.promises, promise, TN_OK, nullptr);
    return detail::stream_failure(line, code, error);
  }
  the_bridge().add({&line, promise, Hold(&source), value});
  return {};
}

bool forget_bridges(Timeline& line) noexcept { return line.promises != nullptr && the_bridge().forget(line); }

}  // namespace tenon::runtime
