// SPDX-License-Identifier: Apache-2.0
// trace_log.hpp: the events of a trace: a ring per thread, device intervals in one list, and the file they become.
//
// Invariant: an event is complete when it enters: begin and end are never apart, so a full ring breaks no pair.
#pragma once

#include "layers/functions.hpp"

#include <tenon/result.hpp>

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace tenon::layers {

using Label = std::shared_ptr<const std::string>;

struct TraceEvent {
  uint64_t begin = 0, end = 0;  // ns
  uint64_t bytes = 0;
  Label subject, stream;  // "kernel 'add3'", "stream 'a'"; null: none
  Function function = Function::count_;
  int32_t code = 0;
};

// What ran on a device between two values of a stream.
struct DeviceInterval {
  uint64_t begin = 0, end = 0;  // ns of the host's clock
  Label what, stream;
  uint64_t bytes = 0;
};

class TraceLog {
 public:
  TraceLog(std::string file, uint64_t capacity);

  // Adds an event of the calling thread. [any-thread; does not block]
  void add(const TraceEvent& event);
  // Adds an interval; past the capacity the oldest goes. [any-thread; does not block]
  void add(DeviceInterval interval);
  // Replaces the file by all events so far. [any-thread; may block; may fail]
  Status write() const;
  const std::string& file() const noexcept { return file_; }
  // Events and intervals so far, dropped ones included. [any-thread; does not block]
  uint64_t added() const;
  uint64_t dropped() const;

 private:
  struct Thread {
    std::mutex mutex;  // its own thread, and whoever writes the file
    uint64_t number = 0;
    uint64_t added = 0;
    std::vector<TraceEvent> ring;
  };
  Thread& mine();
  std::string host_events() const;
  std::string device_events() const;

  const std::string file_;
  const uint64_t capacity_;
  const uint64_t serial_;  // of this log in the process: what threads remember
  const uint64_t start_;
  mutable std::mutex mutex_;
  std::deque<std::unique_ptr<Thread>> threads_;
  std::deque<DeviceInterval> intervals_;
  uint64_t intervals_dropped_ = 0;
};

}  // namespace tenon::layers
