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
  kept_.owners.push_back(std::move(owner));
}

void Capturing::share(std::shared_ptr<const Fate> fate) {
  const std::lock_guard lock(mutex_);
  kept_.fates.push_back(std::move(fate));
}

Capturing::Kept Capturing::finish() {
  const std::lock_guard lock(mutex_);
  over_.store(true, std::memory_order_release);
  marks_.clear();
  return std::move(kept_);
}

Result<std::unique_ptr<Captured>> Captured::make(std::shared_ptr<Gpu> gpu, CUgraph graph,
                                                 Capturing::Kept kept) {
  std::unique_ptr<Captured> made(new Captured(std::move(gpu)));
  const Context& context = *made->gpu_->context();
  const CUresult result = context.driver().cuGraphInstantiateWithFlags(&made->native_, graph, 0);
  context.driver().cuGraphDestroy(graph);
  if (result != CUDA_SUCCESS) return context.failed(result, "cuGraphInstantiateWithFlags");
  made->kept_ = std::move(kept);
  return made;
}

Status Captured::failure() const {
  for (const auto& fate : kept_.fates) TN_TRY(fate->failure());
  return {};
}

Captured::~Captured() {
  if (native_ == nullptr) return;
  const Bound bound(gpu_->context()->driver(), gpu_->context()->handle());
  gpu_->context()->driver().cuGraphExecDestroy(native_);
}

}  // namespace tenon::cuda
