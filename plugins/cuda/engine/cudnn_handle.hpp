// SPDX-License-Identifier: Apache-2.0
// cudnn_handle.hpp: cuDNN's handle of one device, and the device as the library sees it.
//
// Invariant: the handle belongs to one thread at a time: whoever runs a plan holds the mutex.
#pragma once

#include "cudnn_plan.hpp"
#include "gpu.hpp"

#include <mutex>

namespace tenon::cuda {

class CudnnHandle {
 public:
  // [any-thread; may block; may fail]
  static Result<std::shared_ptr<CudnnHandle>> make(std::shared_ptr<Gpu> gpu, const Cudnn& library);
  CudnnHandle(std::shared_ptr<Gpu> gpu, const Cudnn& library) : gpu_(std::move(gpu)), library_(library) {}
  CudnnHandle(const CudnnHandle&) = delete;
  CudnnHandle& operator=(const CudnnHandle&) = delete;
  ~CudnnHandle();

  const std::shared_ptr<Gpu>& gpu() const noexcept { return gpu_; }
  const Descriptor& device() const noexcept { return device_; }
  const Cudnn& library() const noexcept { return library_; }

  // The context is current. [any-thread; may block; may fail]
  Status run(CUstream stream, const Descriptor& plan, const PlanPlaces& places, void* workspace);

 private:
  const std::shared_ptr<Gpu> gpu_;
  const Cudnn& library_;
  cudnnHandle_t native_ = nullptr;
  Descriptor device_{};
  std::mutex mutex_;  // of native_
};

}  // namespace tenon::cuda
