// SPDX-License-Identifier: Apache-2.0
// strand.cpp: launches and events of a strand, and the streams of a communicator's own.
#include "strand.hpp"

#include <algorithm>
#include <chrono>

namespace tenon::cuda::comm {

Status Strand::launch(CUfunction function, uint64_t items, void* parameters) const {
  constexpr uint64_t threads = 256, rounds = 4;
  const auto most = uint64_t{2} * static_cast<uint64_t>(context_.multiprocessors());
  const auto blocks = static_cast<unsigned>(std::clamp<uint64_t>(items / (threads * rounds) + 1, 1, most));
  void* arguments[] = {parameters};
  TN_CUDA_IN(context_, cuLaunchKernel, function, blocks, 1, 1, static_cast<unsigned>(threads), 1, 1, 0,
             native_, arguments, nullptr);
  return {};
}

Result<EventRef> Strand::mark() const {
  EventRef event = TN_TRY(context_.events().take(false));
  TN_CUDA_IN(context_, cuEventRecord, event.native(), native_);
  return event;
}

Strands::~Strands() {
  if (streams_.empty()) return;
  const Bound bound(gpu_->context()->driver(), gpu_->context()->handle());
  for (const CUstream stream : streams_) {
    gpu_->leave(stream);
    gpu_->context()->driver().cuStreamDestroy(stream);
  }
}

Result<Strand> Strands::at(size_t number) {
  while (streams_.size() <= number) streams_.push_back(TN_TRY(gpu_->start_stream(0)));
  return Strand(*gpu_, streams_[number]);
}

bool seen_out(const Gpu& gpu, const EventRef& event, uint64_t timeout_ns) {
  if (!event) return true;
  const Context& context = *gpu.context();
  const Bound bound(context.driver(), context.handle());
  const Relaxed relaxed(context.driver());
  const auto begin = std::chrono::steady_clock::now();
  while (context.driver().cuEventQuery(event.native()) == CUDA_ERROR_NOT_READY) {
    const auto spent = std::chrono::steady_clock::now() - begin;
    if (static_cast<uint64_t>(std::chrono::nanoseconds(spent).count()) >= timeout_ns) return false;
    lie_down(spent);
  }
  return true;
}

}  // namespace tenon::cuda::comm
