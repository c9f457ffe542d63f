// SPDX-License-Identifier: Apache-2.0
// cudnn_handle.cpp: making, using and ending a handle, each with the device's context current.
#include "cudnn_handle.hpp"

namespace tenon::cuda {

Result<std::shared_ptr<CudnnHandle>> CudnnHandle::make(std::shared_ptr<Gpu> gpu, const Cudnn& library) {
  const Bound bound(gpu->context()->driver(), gpu->context()->handle());
  const Relaxed relaxed(gpu->context()->driver());
  auto out = std::make_shared<CudnnHandle>(std::move(gpu), library);
  TN_CUDNN(library, cudnnCreate, &out->native_);
  out->device_ = TN_TRY(device_of(library, out->native_));
  return out;
}

CudnnHandle::~CudnnHandle() {
  if (native_ == nullptr) return;
  const Bound bound(gpu_->context()->driver(), gpu_->context()->handle());
  library_.cudnnDestroy(native_);
}

Status CudnnHandle::run(CUstream stream, const Descriptor& plan, const PlanPlaces& places, void* workspace) {
  const std::lock_guard lock(mutex_);
  TN_CUDNN(library_, cudnnSetStream, native_, stream);
  return run_plan(native_, plan, places, workspace);
}

}  // namespace tenon::cuda
