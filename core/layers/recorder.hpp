// SPDX-License-Identifier: Apache-2.0
// recorder.hpp: the file of a recording, and the numbers of handles, shared by all plugins of one layer.
//
// Invariant: a step is in the file before the call that it describes returns, except a signal, which is there before the
// plugin hears it: whoever it wakes is recorded after it.
#pragma once

#include "layers/layer.hpp"
#include "layers/recording.hpp"

#include <atomic>
#include <fstream>
#include <mutex>
#include <string>

namespace tenon::layers {

class Recorder {
 public:
  Recorder(std::string file, Log log) : file_(std::move(file)), log_(std::move(log)) {}

  Status begin();
  // Appends a step. A file that cannot be written ends the recording with one complaint. [any-thread; may block]
  void add(recording::Step step);
  // Writes what is buffered. [any-thread; may block]
  void flush();
  // Writes the end, once; later steps are lost and counted. [any-thread; may block; may fail]
  Status end();
  recording::Id next_id() noexcept { return ids_.fetch_add(1, std::memory_order_relaxed) + 1; }
  std::vector<std::string> report() const;

  // Promises that nobody kept yet: while there are any, nothing may be waited for.
  std::atomic<int64_t> open_promises{0};

 private:
  const std::string file_;
  Log log_;
  std::atomic<recording::Id> ids_{0};
  mutable std::mutex mutex_;
  std::ofstream out_;
  uint32_t check_ = 0;
  uint64_t steps_ = 0, late_ = 0;
  bool ended_ = false, broken_ = false;
};

}  // namespace tenon::layers
