// SPDX-License-Identifier: Apache-2.0
// gpu.cpp: loading and unloading code.
#include "gpu.hpp"

#include "../kernels/device.hpp"
#include "../kernels/ranks.hpp"

#include <tenon/comm.h>
#include <tenon/fragment.h>
#include <tenon/author/text.hpp>

namespace tenon::cuda {

Result<std::shared_ptr<Module>> Module::load(std::shared_ptr<Gpu> gpu, const void* image) {
  const Context& context = *gpu->context();
  const Bound bound(context.driver(), context.handle());
  const Relaxed relaxed(context.driver());
  CUmodule native = nullptr;
  TN_CUDA_IN(context, cuModuleLoadData, &native, image);
  return std::make_shared<Module>(std::move(gpu), native);
}

Module::~Module() { gpu_->retire(native_); }

Result<CUfunction> Module::function(const char* name) const {
  const Context& context = *gpu_->context();
  const Bound bound(context.driver(), context.handle());
  return gpu_->entry(native_, name);
}

Result<std::shared_ptr<Gpu>> Gpu::open(std::shared_ptr<Context> context) {
  auto out = std::make_shared<Gpu>(std::move(context));
  TN_TRY(out->load_own());
  return out;
}

// No stream of this device lives any more, so what still runs is nobody's. A fault that nobody has met yet is met here.
Gpu::~Gpu() {
  const Driver& driver = context_->driver();
  const Bound bound(driver, context_->handle());
  if (const CUresult result = driver.cuCtxSynchronize(); result != CUDA_SUCCESS)
    static_cast<void>(context_->failed(result, "cuCtxSynchronize"));
  if (ranks_ != nullptr) driver.cuModuleUnload(ranks_);
  for (const CUmodule module : retired_) driver.cuModuleUnload(module);
  if (own_ != nullptr) driver.cuModuleUnload(own_);
}

Status Gpu::begin(CUstream stream) {
  FillParameters nothing{};
  nothing.pattern_bytes = 1;
  void* arguments[] = {&nothing};
  TN_CUDA_IN(*context_, cuLaunchKernel, fill_, 1, 1, 1, 32, 1, 1, 0, stream, arguments, nullptr);
  return {};
}

Result<CUstream> Gpu::start_stream(uint32_t priority) {
  CUstream native = nullptr;
  TN_CUDA_IN(*context_, cuStreamCreateWithPriority, &native, CU_STREAM_NON_BLOCKING,
             context_->native_priority(priority));
  if (const Status begun = begin(native); !begun.ok()) {
    context_->driver().cuStreamDestroy(native);
    return Status(begun.error());
  }
  enter(native);
  return native;
}

void Gpu::enter(CUstream stream) {
  const std::lock_guard lock(mutex_);
  streams_.insert(stream);
}

void Gpu::leave(CUstream stream) {
  const std::lock_guard lock(mutex_);
  streams_.erase(stream);
}

void Gpu::leave_busy(CUstream stream) {
  const std::lock_guard lock(mutex_);
  streams_.erase(stream);
  strays_ = true;
}

void Gpu::rank_joins() {
  context_->pins().rank_joins();
  const std::lock_guard lock(mutex_);
  ++ranks_joined_;
}

void Gpu::rank_leaves() {
  {
    const std::lock_guard lock(mutex_);
    --ranks_joined_;
  }
  const Bound bound(context_->driver(), context_->handle());
  context_->pins().rank_leaves();
}

// A stream being captured counts as busy: to query it would break the capture.
bool Gpu::all_idle() const {
  const Driver& driver = context_->driver();
  const Relaxed relaxed(driver);
  for (const CUstream stream : streams_) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (driver.cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS) return false;
    if (status != CU_STREAM_CAPTURE_STATUS_NONE || driver.cuStreamQuery(stream) != CUDA_SUCCESS) return false;
  }
  return true;
}

void Gpu::retire(CUmodule module) noexcept {
  const std::lock_guard lock(mutex_);
  retired_.push_back(module);
  if (retired_.size() < patience || strays_ || ranks_joined_ > 0) return;
  const Bound bound(context_->driver(), context_->handle());
  if (!all_idle()) return;
  for (const CUmodule old : retired_) context_->driver().cuModuleUnload(old);
  retired_.clear();
}

Status Gpu::load_reductions() {
  const std::lock_guard lock(reductions_mutex_);
  if (!reductions_.empty()) return {};
  const Bound bound(context_->driver(), context_->handle());
  const Relaxed relaxed(context_->driver());
  if (ranks_ == nullptr) TN_CUDA_IN(*context_, cuModuleLoadData, &ranks_, ranks_image());
  std::map<std::pair<uint32_t, uint32_t>, CUfunction> found;
  for (uint32_t dtype = TN_DTYPE_bool; dtype <= TN_DTYPE_f64; ++dtype) {
    for (uint32_t reduce = TN_REDUCE_SUM; reduce <= TN_REDUCE_PREMUL_SUM; ++reduce) {
      const std::string name = ranks_entry(dtype, reduce);
      if (!name.empty()) found[{dtype, reduce}] = TN_TRY(entry(ranks_, name.c_str()));
    }
  }
  reductions_ = std::move(found);
  return {};
}

CUfunction Gpu::reduction(uint32_t dtype, uint32_t reduce) const noexcept {
  const auto found = reductions_.find({dtype, reduce});
  return found != reductions_.end() ? found->second : nullptr;
}

Result<CUfunction> Gpu::entry(CUmodule module, const char* name) const {
  const Relaxed relaxed(context_->driver());
  CUfunction found = nullptr;
  TN_CUDA_IN(*context_, cuModuleGetFunction, &found, module, name);
  TN_CUDA_IN(*context_, cuFuncLoad, found);
  return found;
}

Status Gpu::load_own() {
  const Bound bound(context_->driver(), context_->handle());
  const Relaxed relaxed(context_->driver());
  TN_CUDA_IN(*context_, cuModuleLoadData, &own_, device_image());
  fill_ = TN_TRY(entry(own_, "fill"));
  pull_ = TN_TRY(entry(own_, "pull"));
  copy_box_ = TN_TRY(entry(own_, "copy_box"));
  return {};
}

}  // namespace tenon::cuda
