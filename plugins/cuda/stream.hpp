// SPDX-License-Identifier: Apache-2.0
// stream.hpp: a CUDA stream with its timeline: our own, or one that a framework lends.
//
// `record` puts a native event behind the work enqueued since the last one; with nothing enqueued it repeats the value.
// A stream whose first use is a promise carries no work at all, and has no native stream behind its values.
// Invariant: every call leaves the thread's current context as it was, and no call waits for the device but `sync`,
// `finish`, and copies to and from ordinary host memory.
#pragma once

#include "engine/capture.hpp"
#include "engine/fate.hpp"
#include "engine/timeline.hpp"
#include "engine/transfer.hpp"

#include <tenon/stream.h>

#include <span>

namespace tenon::cuda {

// One kernel launch: a function and its one-dimensional grid.
struct Grid {
  CUfunction function = nullptr;
  uint32_t blocks = 0, threads = 0;
};

class Stream {
 public:
  // Makes a stream of the wanted priority, or wraps the native one. [any-thread; may block; may fail]
  static Result<std::unique_ptr<Stream>> create(std::shared_ptr<Gpu> gpu, uint32_t priority);
  static Result<std::unique_ptr<Stream>> import(std::shared_ptr<Gpu> gpu, CUstream native);
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream();

  Status copy(const tn_span& dst, const tn_span& src);
  Status copy_strided(const tn_span& dst, const tn_span& src, const tn_copy_shape& shape);
  Status fill(const tn_span& dst, uint64_t pattern, uint32_t pattern_bytes);
  // Launches the grids in order, each with the same argument block; `owner` is kept by a capture.
  Status launch(std::span<const Grid> grids, const void* arguments,
                const std::shared_ptr<const Module>& owner);
  // Lets `call` enqueue on the native stream in order; `owner` is kept by a capture. The context is current in it.
  template <class Call>
  Status enqueue(const std::shared_ptr<const void>& owner, Call&& call);
  Result<uint64_t> record(uint32_t flags);
  Status wait(Stream& other, uint64_t value);
  Result<uint64_t> completed();
  Status sync(uint64_t value, uint64_t timeout_ns);
  Result<uint64_t> timestamp(uint64_t value);
  Status host_call(void (*call)(void*), void* argument);
  Result<uint64_t> promise();
  Status signal(uint64_t value, int32_t code);
  Status finish(uint32_t mode);

  // The native stream, which has begun (Gpu::begin), for work that a communicator is about to enqueue. TN_INVALID in a capture.
  Result<CUstream> lend();
  // The same for work that can be captured: a capture of tn.capture/1 that is going on keeps `owner`. TN_INVALID in one that the
  // owner of a borrowed stream began, which keeps nothing.
  struct Lent {
    CUstream native = nullptr;
    std::shared_ptr<Capturing> capture{};  // null: there is none
  };
  Result<Lent> lend(const std::shared_ptr<const void>& owner);
  // From here on the stream fails with `fate`.
  void share(std::shared_ptr<const Fate> fate);
  const std::shared_ptr<Gpu>& gpu() const noexcept { return gpu_; }

  // tn.capture/1
  Status begin_capture();
  Result<std::unique_ptr<Captured>> end_capture();
  Status replay(const Captured& captured);
  // tn.import/1
  CUstream native() const noexcept { return native_; }

 private:
  Stream(std::shared_ptr<Gpu> gpu, CUstream native, bool borrowed)
      : gpu_(std::move(gpu)),
        context_(*gpu_->context()),
        native_(native),
        borrowed_(borrowed),
        begun_(!borrowed),
        timeline_(context_) {}

  // What stands before any work: a promise; a capture for what cannot be captured.
  Status takes_work();
  Status refuse_in_capture(const char* what);
  std::shared_ptr<Capturing> capturing();
  Result<bool> in_capture();
  Result<uint64_t> record_captured(const std::shared_ptr<Capturing>& capture);
  Status wait_event(CUevent event);
  Status wait_captured(const std::shared_ptr<Capturing>& theirs, Stream& other, uint64_t value);
  Status wait_promise(const Promises& promises, uint64_t value);
  // TN_TIMEOUT: abandoned, and still busy after a moment.
  Status drain(uint32_t mode);
  void drop_capture();
  Status note(Status status);
  // The first failure of what it shares, enqueued before `value` was recorded.
  Status fate(uint64_t value = UINT64_MAX);

  std::shared_ptr<Gpu> gpu_;
  Context& context_;
  CUstream native_;
  const bool borrowed_;
  bool begun_;                     // Gpu::begin; of a borrowed one nobody knows what its owner has enqueued
  bool dirty_ = false;             // work since the last record
  std::atomic<bool> told_{false};  // somebody was told of a failure
  bool gone_ = false;              // finish was called
  Timeline timeline_;
  std::unique_ptr<Promises> promises_{};
  struct Shared {
    uint64_t after = 0;  // the newest value when it came
    std::shared_ptr<const Fate> fate{};
  };
  std::atomic<bool> shares_{false};
  std::mutex shared_mutex_;  // of shared_
  std::vector<Shared> shared_{};
  std::mutex capture_mutex_;  // others look at what we capture when they wait
  std::shared_ptr<Capturing> capturing_{};
  std::atomic<uint64_t> capture_floor_{UINT64_MAX};  // values above were recorded in the capture going on
};

template <class Call>
Status Stream::enqueue(const std::shared_ptr<const void>& owner, Call&& call) {
  TN_TRY(takes_work());
  const Bound bound(context_.driver(), context_.handle());
  const Relaxed relaxed(context_.driver());
  if (const auto capture = capturing(); capture != nullptr && owner != nullptr) capture->keep(owner);
  dirty_ = true;
  return note(call(native_));
}

}  // namespace tenon::cuda
