// SPDX-License-Identifier: Apache-2.0
// stream.hpp: a stream of the simulated device: spans become places, calls become commands of a lane.
//
// Invariant: a call never touches the device's memory; only commands do, when the scheduler lets them.
#pragma once

#include "engine/capture.hpp"
#include "engine/scheduler.hpp"

#include <tenon/stream.h>

#include <span>

namespace tenon::sim {

class Device;
class Executor;

class Stream {
 public:
  Stream(std::shared_ptr<Card> card, Scheduler& scheduler);
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream();

  Status copy(const tn_span& dst, const tn_span& src);
  Status copy_strided(const tn_span& dst, const tn_span& src, const tn_copy_shape& shape);
  Status fill(const tn_span& dst, uint64_t pattern, uint32_t pattern_bytes);
  Status launch(std::shared_ptr<const Executor> executor, std::span<const tn_span> bindings,
                const tn_span& workspace);
  Result<uint64_t> record(uint32_t flags);
  Status wait(Stream& other, uint64_t value);
  Result<uint64_t> completed();
  Status sync(uint64_t value, uint64_t timeout_ns);
  Result<uint64_t> timestamp(uint64_t value);
  Status host_call(void (*call)(void*), void* argument);
  Result<uint64_t> promise();
  Status signal(uint64_t value, int32_t code);
  Status finish(uint32_t mode);
  // A group of a communicator; `lane` is told where, before it can begin.
  Status exchange(Command command, std::shared_ptr<Lane>& lane);
  // Where the device finds a span; TN_INVALID for what it does not reach.
  Result<std::byte*> place(const tn_span& span, const char* what) const;

  // tn.capture/1
  Status begin_capture() { return capturing_.begin(newest_); }
  Result<std::unique_ptr<Capture>> end_capture();
  Status replay(const Capture& capture);

 private:
  Status check_copy(const tn_span& dst, const tn_span& src) const;
  // Puts work on the lane, or into the capture in progress.
  Status enqueue(std::function<Status()> run);

  std::shared_ptr<Card> card_;
  Scheduler& scheduler_;
  std::shared_ptr<Lane> lane_;
  author::Capturing<Step> capturing_;
  uint64_t newest_ = 0;  // value that was recorded
};

}  // namespace tenon::sim
