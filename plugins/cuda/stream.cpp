// SPDX-License-Identifier: Apache-2.0
// stream.cpp: from a call to the driver's, in order; who waits for whom; how a stream ends.
#include "stream.hpp"

#include <tenon/author/text.hpp>

#include <thread>

namespace tenon::cuda {

using author::text;

Result<std::unique_ptr<Stream>> Stream::create(std::shared_ptr<Gpu> gpu, uint32_t priority) {
  const Context& context = *gpu->context();
  const Bound bound(context.driver(), context.handle());
  TN_TRY(context.alive());
  CUstream const native = TN_TRY(gpu->start_stream(priority));
  return std::unique_ptr<Stream>(new Stream(std::move(gpu), native, false));
}

Result<std::unique_ptr<Stream>> Stream::import(std::shared_ptr<Gpu> gpu, CUstream native) {
  const Context& context = *gpu->context();
  const Bound bound(context.driver(), context.handle());
  CUcontext owner = nullptr;
  TN_CUDA_IN(context, cuStreamGetCtx, native, &owner);
  if (owner != context.handle()) {
    return Status(
        TN_INVALID,
        text("this stream is not of the primary context of device 'cuda:", context.ordinal(),
             "': import it on the device it was made on, and let the framework use primary contexts"));
  }
  gpu->enter(native);
  return std::unique_ptr<Stream>(new Stream(std::move(gpu), native, true));
}

Stream::~Stream() {
  if (!gone_) (void)finish(TN_DESTROY_ABANDON);
}

// Remembers that the caller learns of a failure here.
Status Stream::note(Status status) {
  if (!status.ok() && (status.error().flags & TN_ERROR_ASYNC) != 0) told_ = true;
  return status;
}

Status Stream::takes_work() {
  if (shares_.load(std::memory_order_relaxed)) TN_TRY(fate());
  if (promises_ == nullptr) return {};
  TN_TRY(note(promises_->failure()));
  return Status(TN_INVALID,
                "this stream has made promises, and so carries no other work: use another stream");
}

Result<CUstream> Stream::lend() {
  TN_TRY(takes_work());
  const Bound bound(context_.driver(), context_.handle());
  TN_TRY(refuse_in_capture("a collective of ranks that are threads"));
  dirty_ = true;
  if (!begun_) TN_TRY(note(gpu_->begin(native_)));
  begun_ = true;
  return native_;
}

Result<Stream::Lent> Stream::lend(const std::shared_ptr<const void>& owner) {
  TN_TRY(takes_work());
  const Bound bound(context_.driver(), context_.handle());
  auto capture = capturing();
  if (capture != nullptr)
    capture->keep(owner);
  else
    TN_TRY(refuse_in_capture("a collective, by others than tn.capture/1,"));
  dirty_ = true;
  return Lent{.native = native_, .capture = std::move(capture)};
}

// What nobody else refers to any more has ended well, or has failed already.
void Stream::share(std::shared_ptr<const Fate> fate) {
  const std::lock_guard lock(shared_mutex_);
  std::erase_if(shared_, [](const Shared& s) { return s.fate.use_count() == 1 && s.fate->failure().ok(); });
  shared_.push_back({.after = timeline_.newest(), .fate = std::move(fate)});
  shares_.store(true, std::memory_order_relaxed);
}

Status Stream::fate(uint64_t value) {
  const std::lock_guard lock(shared_mutex_);
  for (const Shared& shared : shared_) {
    if (shared.after >= value) break;
    const Status said = shared.fate->failure();
    if (said.ok()) continue;
    Error told = said.error();
    told.flags |= TN_ERROR_ASYNC;
    return note(Status(std::move(told)));
  }
  return {};
}

std::shared_ptr<Capturing> Stream::capturing() {
  if (capture_floor_.load(std::memory_order_acquire) == UINT64_MAX) return nullptr;
  const std::lock_guard lock(capture_mutex_);
  if (capturing_ != nullptr && capturing_->over()) {
    capturing_.reset();
    capture_floor_.store(UINT64_MAX);
  }
  return capturing_;
}

// A capture of ours, or one that the owner of a borrowed stream has begun.
Result<bool> Stream::in_capture() {
  if (capturing() != nullptr) return true;
  if (!borrowed_) return false;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  TN_CUDA_IN(context_, cuStreamIsCapturing, native_, &status);
  return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

Status Stream::refuse_in_capture(const char* what) {
  if (!TN_TRY(in_capture())) return {};
  return Status(TN_INVALID,
                text("this stream is being captured, and ", what, " cannot be: do it before or after"));
}

Status Stream::copy(const tn_span& dst, const tn_span& src) {
  TN_TRY(takes_work());
  const Bound bound(context_.driver(), context_.handle());
  if (is_pageable(context_, dst) || is_pageable(context_, src))
    TN_TRY(refuse_in_capture("a copy from or to ordinary host memory"));
  dirty_ = true;
  return note(cuda::copy(*gpu_, native_, dst, src));
}

Status Stream::copy_strided(const tn_span& dst, const tn_span& src, const tn_copy_shape& shape) {
  TN_TRY(takes_work());
  const Bound bound(context_.driver(), context_.handle());
  if (is_pageable(context_, dst) || is_pageable(context_, src))
    TN_TRY(refuse_in_capture("a copy from or to ordinary host memory"));
  dirty_ = true;
  return note(cuda::copy_box(*gpu_, native_, dst, src, shape));
}

Status Stream::fill(const tn_span& dst, uint64_t pattern, uint32_t pattern_bytes) {
  TN_TRY(takes_work());
  const Bound bound(context_.driver(), context_.handle());
  dirty_ = true;
  return note(cuda::fill(*gpu_, native_, dst, pattern, pattern_bytes));
}

Status Stream::launch(std::span<const Grid> grids, const void* arguments,
                      const std::shared_ptr<const Module>& owner) {
  TN_TRY(takes_work());
  const Bound bound(context_.driver(), context_.handle());
  if (const auto capture = capturing()) capture->keep(owner);
  dirty_ = true;
  void* parameters[] = {const_cast<void*>(arguments)};
  for (const Grid& grid : grids) {
    const CUresult result = context_.driver().cuLaunchKernel(grid.function, grid.blocks, 1, 1, grid.threads,
                                                             1, 1, 0, native_, parameters, nullptr);
    if (result != CUDA_SUCCESS) [[unlikely]]
      return note(context_.failed(result, "cuLaunchKernel"));
  }
  return {};
}

Status Stream::host_call(void (*call)(void*), void* argument) {
  TN_TRY(takes_work());
  const Bound bound(context_.driver(), context_.handle());
  TN_TRY(refuse_in_capture("a host call"));
  dirty_ = true;
  const CUresult result = context_.driver().cuLaunchHostFunc(native_, call, argument);
  return result == CUDA_SUCCESS ? Status() : note(context_.failed(result, "cuLaunchHostFunc"));
}

Result<uint64_t> Stream::record(uint32_t flags) {
  if (promises_ != nullptr) {
    TN_TRY(note(promises_->failure()));
    return promises_->newest();
  }
  TN_TRY(fate());
  const bool timed = (flags & TN_RECORD_TIMED) != 0;
  if (!dirty_ && !timed && !borrowed_) return timeline_.newest();
  const Bound bound(context_.driver(), context_.handle());
  if (const auto capture = capturing()) return record_captured(capture);
  if (TN_TRY(in_capture())) {
    return Status(
        TN_INVALID,
        "the owner of this imported stream is capturing it, and a capture's values are its own: record "
        "before or after, or capture through tn.capture/1");
  }
  Result<uint64_t> value = timeline_.record(native_, timed);
  if (!value.ok()) return note(std::move(value).failure());
  dirty_ = false;
  return value;
}

Result<uint64_t> Stream::record_captured(const std::shared_ptr<Capturing>& capture) {
  EventRef event = TN_TRY(context_.events().take(false));
  TN_CUDA_IN(context_, cuEventRecord, event.native(), native_);
  const uint64_t value = timeline_.skip();
  capture->mark(native_, value, std::move(event));
  dirty_ = true;  // it stands for nothing outside
  return value;
}

Status Stream::wait(Stream& other, uint64_t value) {
  if (&other == this) return {};
  TN_TRY(takes_work());
  if (other.promises_ != nullptr) return wait_promise(*other.promises_, value);
  const Bound bound(context_.driver(), context_.handle());
  if (const auto theirs = other.capturing(); theirs != nullptr && value > other.capture_floor_.load())
    return wait_captured(theirs, other, value);
  const EventRef event = other.timeline_.event_for(value);
  if (!event) return {};
  if (TN_TRY(in_capture())) {
    if (TN_TRY(other.timeline_.completed()) >= value) return {};
    return refuse_in_capture("a wait for work outside the capture");
  }
  return wait_event(event.native());
}

Status Stream::wait_event(CUevent event) {
  dirty_ = true;
  const CUresult result = context_.driver().cuStreamWaitEvent(native_, event, CU_EVENT_WAIT_DEFAULT);
  return result == CUDA_SUCCESS ? Status() : note(context_.failed(result, "cuStreamWaitEvent"));
}

// Waiting for a captured value is how a stream joins a capture, and how the first one takes it back.
Status Stream::wait_captured(const std::shared_ptr<Capturing>& theirs, Stream& other, uint64_t value) {
  const auto mine = capturing();
  if (mine != nullptr && mine != theirs)
    return Status(TN_INVALID, "two captures cannot wait for each other: end one first");
  const EventRef event = theirs->find(other.native_, value);
  if (!event) return {};
  TN_TRY(wait_event(event.native()));
  if (mine != nullptr) return {};
  const std::lock_guard lock(capture_mutex_);
  capturing_ = theirs;
  capture_floor_.store(timeline_.newest(), std::memory_order_release);
  return {};
}

Status Stream::wait_promise(const Promises& promises, uint64_t value) {
  if (promises.kept() >= value) return {};
  const Bound bound(context_.driver(), context_.handle());
  TN_TRY(refuse_in_capture("a wait for a promise"));
  dirty_ = true;
  const CUresult result =
      context_.driver().cuStreamWaitValue64(native_, promises.address(), value, CU_STREAM_WAIT_VALUE_GEQ);
  return result == CUDA_SUCCESS ? Status() : note(context_.failed(result, "cuStreamWaitValue64"));
}

Result<uint64_t> Stream::completed() {
  if (promises_ != nullptr) {
    TN_TRY(note(promises_->failure()));
    return promises_->kept();
  }
  const Bound bound(context_.driver(), context_.handle());
  Result<uint64_t> reached = timeline_.completed();
  if (!reached.ok()) return note(std::move(reached).failure());
  TN_TRY(fate(*reached));
  return std::min(*reached, capture_floor_.load());
}

Status Stream::sync(uint64_t value, uint64_t timeout_ns) {
  if (promises_ != nullptr) return note(promises_->sync(value, timeout_ns));
  if (capturing() != nullptr && value > capture_floor_.load()) {
    return Status(TN_INVALID, text("value ", value,
                                   " was recorded in a capture that is going on: it is reached by a "
                                   "replay, never by itself"));
  }
  const Bound bound(context_.driver(), context_.handle());
  TN_TRY(note(timeline_.sync(value, timeout_ns)));
  return fate(value);
}

Result<uint64_t> Stream::timestamp(uint64_t value) {
  const Bound bound(context_.driver(), context_.handle());
  return timeline_.timestamp(value);
}

Result<uint64_t> Stream::promise() {
  if (promises_ == nullptr) {
    if (dirty_ || timeline_.newest() != 0 || borrowed_ || capturing() != nullptr) {
      return Status(TN_INVALID,
                    "this stream has carried work, and so takes no promises: use a stream of its own");
    }
    promises_ = std::make_unique<Promises>(*TN_TRY(gpu_->words().take()));
  }
  TN_TRY(note(promises_->failure()));
  return promises_->make();
}

Status Stream::signal(uint64_t value, int32_t code) {
  if (promises_ == nullptr)
    return Status(TN_INVALID, text("value ", value, " was never promised on this stream"));
  return promises_->keep(value, code);
}

// What was abandoned ends by itself: the driver drops nothing that is enqueued. It is given a moment, so that the memory
// it works on may be freed next.
Status Stream::drain(uint32_t mode) {
  const Driver& driver = context_.driver();
  const Relaxed relaxed(driver);
  if (mode == TN_DESTROY_COMPLETE) {
    TN_CUDA_IN(context_, cuStreamSynchronize, native_);
    return {};
  }
  const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  while (driver.cuStreamQuery(native_) == CUDA_ERROR_NOT_READY) {
    if (std::chrono::steady_clock::now() > patience)
      return Status(TN_TIMEOUT, "abandoned with work on its way");
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return {};
}

void Stream::drop_capture() {
  const auto capture = capturing();
  if (capture == nullptr || !capture->led_by(native_)) return;
  CUgraph graph = nullptr;
  (void)capture->finish();
  if (context_.driver().cuStreamEndCapture(native_, &graph) == CUDA_SUCCESS && graph != nullptr)
    context_.driver().cuGraphDestroy(graph);
}

Status Stream::finish(uint32_t mode) {
  gone_ = true;
  const uint64_t unkept = promises_ != nullptr ? promises_->give_up() : 0;
  Status broken = promises_ != nullptr ? promises_->failure() : Status();
  const Bound bound(context_.driver(), context_.handle());
  drop_capture();
  Status last = drain(mode);
  const bool busy = last.code() == TN_TIMEOUT;
  busy ? gpu_->leave_busy(native_) : gpu_->leave(native_);
  if (!borrowed_) context_.driver().cuStreamDestroy(native_);
  if (last.ok()) last = std::move(broken);
  const bool told = told_;
  if (last.ok()) last = fate();
  if (busy || (told && !last.ok())) return {};
  if (!last.ok() || unkept == 0 || mode == TN_DESTROY_ABANDON) return last;
  return Status(TN_INVALID,
                text(unkept, " promises of this stream were never kept; whoever waits for them goes on"));
}

Status Stream::begin_capture() {
  TN_TRY(takes_work());
  if (capturing() != nullptr)
    return Status(TN_BUSY, "this stream is captured already: end that capture first");
  const Bound bound(context_.driver(), context_.handle());
  TN_CUDA_IN(context_, cuStreamBeginCapture, native_, CU_STREAM_CAPTURE_MODE_RELAXED);
  const std::lock_guard lock(capture_mutex_);
  capturing_ = std::make_shared<Capturing>(native_);
  dirty_ = true;  // what was recorded before is not inside
  capture_floor_.store(timeline_.newest(), std::memory_order_release);
  return {};
}

Result<std::unique_ptr<Captured>> Stream::end_capture() {
  const auto capture = capturing();
  if (capture == nullptr) return Status(TN_INVALID, "this stream is not being captured: begin first");
  if (!capture->led_by(native_))
    return Status(TN_INVALID, "this stream joined the capture of another one: end it there");
  const Bound bound(context_.driver(), context_.handle());
  auto kept = capture->finish();
  CUgraph graph = nullptr;
  const CUresult result = context_.driver().cuStreamEndCapture(native_, &graph);
  if (result != CUDA_SUCCESS) return context_.failed(result, "cuStreamEndCapture");
  return Captured::make(gpu_, graph, std::move(kept));
}

Status Stream::replay(const Captured& captured) {
  TN_TRY(takes_work());
  TN_TRY(captured.failure());
  const Bound bound(context_.driver(), context_.handle());
  TN_TRY(refuse_in_capture("the replay of another capture"));
  dirty_ = true;
  const CUresult result = context_.driver().cuGraphLaunch(captured.native(), native_);
  return result == CUDA_SUCCESS ? Status() : note(context_.failed(result, "cuGraphLaunch"));
}

}  // namespace tenon::cuda
