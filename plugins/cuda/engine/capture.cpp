// SPDX-License-Identifier: Apache-2.0
// capture.cpp: the values of a capture, and its graph.
#include "capture.hpp"

namespace tenon::cuda {

void Capturing::mark(CUstream member, uint64_t value, EventRef event) {
  const std::lock_guard lock(mutex_);
  marks_.insert_or_assign({member, value}, std::move(event));
}

EventRef Capturing::find(CUstream member, uint64_t value) const {
  const std::lock_guard lock(mutex_);
  const auto found = marks_.lower_bound({member, value});
  return found != marks_.end() && found->first.first == member ? found->second : EventRef();
}

void Capturing::keep(std::shared_ptr<const void> owner) {
  const std::lock_guard lock(mutex_);
  kept_.push_back(std::move(owner));
}

std::vector<std::shared_ptr<const void>> Capturing::finish() {
  const std::lock_guard lock(mutex_);
  over_.store(true, std::memory_order_release);
  marks_.clear();
  return std::move(kept_);
}

Result<std::unique_ptr<Captured>> Captured::make(std::shared_ptr<Gpu> gpu, CUgraph graph,
                                                 std::vector<std::shared_ptr<const void>> kept) {
  std::unique_ptr<Captured> made(new Captured(std::move(gpu)));
  const Context& context = *made->gpu_->context();
  const CUresult result = context.driver().cuGraphInstantiateWithFlags(&made->native_, graph, 0);
  context.driver().cuGraphDestroy(graph);
  if (result != CUDA_SUCCESS) return context.failed(result, "cuGraphInstantiateWithFlags");
  made->kept_ = std::move(kept);
  return made;
}

Captured::~Captured() {
  if (native_ == nullptr) return;
  const Bound bound(gpu_->context()->driver(), gpu_->context()->handle());
  gpu_->context()->driver().cuGraphExecDestroy(native_);
}

}  // namespace tenon::cuda
