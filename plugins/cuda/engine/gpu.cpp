// SPDX-License-Identifier: Apache-2.0
// gpu.cpp: loading and unloading code.
#include "gpu.hpp"

#include "../kernels/device.hpp"

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
  CUfunction found = nullptr;
  TN_CUDA_IN(context, cuModuleGetFunction, &found, native_, name);
  return found;
}

// No stream of this device lives any more, so what still runs is nobody's.
Gpu::~Gpu() {
  const Driver& driver = context_->driver();
  const Bound bound(driver, context_->handle());
  if (!retired_.empty() || !resident_.empty() || own_ != nullptr) driver.cuCtxSynchronize();
  for (const auto& [key, module] : resident_) driver.cuModuleUnload(module);
  for (const CUmodule module : retired_) driver.cuModuleUnload(module);
  if (own_ != nullptr) driver.cuModuleUnload(own_);
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
  if (retired_.size() < patience || strays_) return;
  const Bound bound(context_->driver(), context_->handle());
  if (!all_idle()) return;
  for (const CUmodule old : retired_) context_->driver().cuModuleUnload(old);
  retired_.clear();
}

Result<CUmodule> Gpu::resident(uint32_t key, const std::function<Result<std::string>()>& image) {
  const std::lock_guard lock(resident_mutex_);
  if (const auto found = resident_.find(key); found != resident_.end()) return found->second;
  const std::string code = TN_TRY(image());
  const Bound bound(context_->driver(), context_->handle());
  const Relaxed relaxed(context_->driver());
  CUmodule module = nullptr;
  TN_CUDA_IN(*context_, cuModuleLoadData, &module, code.data());
  resident_.emplace(key, module);
  return module;
}

Status Gpu::load_own() {
  if (copy_box_ != nullptr) return {};
  const Relaxed relaxed(context_->driver());
  if (own_ == nullptr) TN_CUDA_IN(*context_, cuModuleLoadData, &own_, device_image());
  TN_CUDA_IN(*context_, cuModuleGetFunction, &fill_, own_, "fill");
  TN_CUDA_IN(*context_, cuModuleGetFunction, &pull_, own_, "pull");
  TN_CUDA_IN(*context_, cuModuleGetFunction, &copy_box_, own_, "copy_box");
  return {};
}

Result<CUfunction> Gpu::fill() {
  const std::lock_guard lock(mutex_);
  TN_TRY(load_own());
  return fill_;
}

Result<CUfunction> Gpu::copy_box() {
  const std::lock_guard lock(mutex_);
  TN_TRY(load_own());
  return copy_box_;
}

Result<CUfunction> Gpu::pull() {
  const std::lock_guard lock(mutex_);
  TN_TRY(load_own());
  return pull_;
}

}  // namespace tenon::cuda
