// SPDX-License-Identifier: Apache-2.0
// strand.hpp: what a communicator enqueues on a native stream: words written and waited for, copies, launches, events.
//
// Invariant: nothing here waits on the host; the context is current in every call.
#pragma once

#include "../engine/gpu.hpp"

namespace tenon::cuda::comm {

class Strand {
 public:
  Strand(Gpu& gpu, CUstream native) : context_(*gpu.context()), native_(native) {}

  // `value` in the word at `word`, once all before it on this strand is done and seen by everybody.
  Status write(CUdeviceptr word, uint64_t value) const {
    TN_CUDA_IN(context_, cuStreamWriteValue64, native_, word, value, CU_STREAM_WRITE_VALUE_DEFAULT);
    return {};
  }
  // What follows begins when the word is `value` or greater.
  Status wait(CUdeviceptr word, uint64_t value) const {
    TN_CUDA_IN(context_, cuStreamWaitValue64, native_, word, value, CU_STREAM_WAIT_VALUE_GEQ);
    return {};
  }
  Status copy(CUdeviceptr to, CUdeviceptr from, uint64_t bytes) const {
    TN_CUDA_IN(context_, cuMemcpyAsync, to, from, bytes, native_);
    return {};
  }
  // `items` shared out among blocks of 256 threads, of which there are few: ranks share a device.
  Status launch(CUfunction function, uint64_t items, void* parameters) const;
  // An event behind all that is enqueued.
  Result<EventRef> mark() const;
  // What follows begins when the event is over.
  Status follow(const EventRef& event) const {
    TN_CUDA_IN(context_, cuStreamWaitEvent, native_, event.native(), CU_EVENT_WAIT_DEFAULT);
    return {};
  }

 private:
  Context& context_;
  CUstream native_;
};

// Streams of a communicator's own, for what a group does side by side.
class Strands {
 public:
  explicit Strands(std::shared_ptr<Gpu> gpu) : gpu_(std::move(gpu)) {}
  Strands(const Strands&) = delete;
  Strands& operator=(const Strands&) = delete;
  ~Strands();
  // The stream of this number; made when it is first asked for. The context is current.
  Result<Strand> at(size_t number);

 private:
  std::shared_ptr<Gpu> gpu_;
  std::vector<CUstream> streams_{};
};

// Whether the event has come within `timeout_ns`, which asks for it: a driver may do what nobody asks for late. There is nothing to
// wait for without one, and a lost device has ended all. [any-thread; blocks; cannot fail]
bool seen_out(const Gpu& gpu, const EventRef& event, uint64_t timeout_ns);

}  // namespace tenon::cuda::comm
