// SPDX-License-Identifier: Apache-2.0
// stream.hpp: a stream of the CPU: a queue, the worker that serves it, and the timeline both move along.
//
// The timeline's value is the count of commands enqueued, so recording an ordinary value enqueues nothing.
// Invariant: a call allocates nothing on its way to the queue; when 1,024 commands are pending it waits for room.
#pragma once

#include "engine/capture.hpp"
#include "engine/promises.hpp"
#include "engine/roster.hpp"

#include <tenon/stream.h>

#include <span>

namespace tenon::cpu {

class Device;

class Stream {
 public:
  Stream(Device& device, const tn_stream_options& options);
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream();

  Status copy(const tn_span& dst, const tn_span& src);
  Status copy_strided(const tn_span& dst, const tn_span& src, const tn_copy_shape& shape);
  Status fill(const tn_span& dst, uint64_t pattern, uint32_t pattern_bytes);
  Status launch(const Runnable& program, std::span<const tn_span> bindings, const tn_span& workspace);
  // Enqueues `errand`, to run once `turns` has reached `value`. It lives until it was run or skipped.
  Status run(Errand& errand, Timeline& turns, uint64_t value);
  // Nothing is enqueued that has not ended, and nothing stands in the way of more. [stream's thread; does not block; cannot fail]
  bool idle() const noexcept {
    return !blocked() && !capturing_.maybe() && timeline_.progress() == queue_.enqueued();
  }
  Result<uint64_t> record(uint32_t flags);
  Status wait(Stream& other, uint64_t value);
  Result<uint64_t> completed();
  Status sync(uint64_t value, uint64_t timeout_ns);
  Result<uint64_t> timestamp(uint64_t value);
  Status host_call(void (*call)(void*), void* argument);
  Result<uint64_t> promise();
  Status signal(uint64_t value, int32_t code);
  Status finish(uint32_t mode);
  // tn.capture/1
  Status begin_capture();
  Result<std::unique_ptr<Capture>> end_capture();
  Status replay(const Capture& capture);

 private:
  // What stands in the way of more work: a failure, or a promise.
  bool blocked() const noexcept { return timeline_.failed() || promises_ != nullptr; }
  Status refusal();
  // The next slot, after waiting for one to become free.
  Command& slot() noexcept {
    if (queue_.enqueued() - seen_ >= Queue::capacity) [[unlikely]]
      make_room();
    return queue_.next_slot();
  }
  void make_room() noexcept;
  // Gives the next slot's command to the worker, or to the capture in progress. Returns its value.
  uint64_t publish(Command::Kind kind) {
    if (capturing_.maybe() && collect(kind)) [[unlikely]]
      return queue_.enqueued();
    return worker_->publish(kind);
  }
  bool collect(Command::Kind kind);
  std::byte** room(size_t bindings);
  std::byte* arena(uint64_t bytes) noexcept;
  bool reach(uint64_t value, uint64_t timeout_ns) noexcept;
  Status settle(uint64_t value) { return sync(value, TN_TIMEOUT_NEVER); }
  uint64_t newest() const noexcept { return promises_ != nullptr ? promises_->newest() : queue_.enqueued(); }

  Roster& roster_;
  std::shared_ptr<Worker> worker_;
  Queue& queue_;        // of worker_
  Timeline& timeline_;  // of worker_
  std::unique_ptr<Promises> promises_;
  author::Capturing<Taped> capturing_;
  std::unique_ptr<std::byte*[]> collected_;  // bindings of the next command, in a capture
  uint64_t seen_ = 0;  // progress when last looked at; saves a look at the worker's cache line
};

}  // namespace tenon::cpu
