// SPDX-License-Identifier: Apache-2.0
// bare.cpp: a context, a stream and an empty kernel with as many parameters as an addition.
#include "bare.hpp"

#include <dlfcn.h>

namespace bench {

namespace {

constexpr const char* empty_kernel = R"(.version 7.0
.target sm_75
.address_size 64
.visible .entry empty(.param .align 8 .b8 block[32]) { ret; }
)";

template <class Function>
bool find(Function& into, const char* name) {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  into = library == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(library, name));
  return into != nullptr;
}

}  // namespace

Bare::Bare(std::string& why) { usable_ = start(why); }

bool Bare::start(std::string& why) {
  decltype(&::cuInit) init = nullptr;
  decltype(&::cuDevicePrimaryCtxRetain) retain = nullptr;
  decltype(&::cuCtxSetCurrent) set_current = nullptr;
  decltype(&::cuStreamCreate) create_stream = nullptr;
  decltype(&::cuEventCreate) create_event = nullptr;
  decltype(&::cuModuleLoadData) load = nullptr;
  decltype(&::cuModuleGetFunction) function = nullptr;
  why = "libcuda.so.1 is not installed";
  if (!find(init, "cuInit") || !find(retain, "cuDevicePrimaryCtxRetain") ||
      !find(set_current, "cuCtxSetCurrent") || !find(create_stream, "cuStreamCreate") ||
      !find(create_event, "cuEventCreate") || !find(load, "cuModuleLoadData") ||
      !find(function, "cuModuleGetFunction") || !find(launch_, "cuLaunchKernel") ||
      !find(record_, "cuEventRecord") || !find(query_, "cuEventQuery") ||
      !find(synchronize_, "cuStreamSynchronize") || !find(elapsed_, "cuEventElapsedTime") ||
      !find(copy_, "cuMemcpyDtoDAsync_v2"))
    return false;
  why = "the driver does not start, or does not take an empty kernel";
  return init(0) == CUDA_SUCCESS && retain(&context_, 0) == CUDA_SUCCESS &&
         set_current(context_) == CUDA_SUCCESS &&
         create_stream(&stream_, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS && make_events(create_event) &&
         create_event(&begin_, CU_EVENT_DEFAULT) == CUDA_SUCCESS &&
         create_event(&end_, CU_EVENT_DEFAULT) == CUDA_SUCCESS &&
         load(&module_, empty_kernel) == CUDA_SUCCESS &&
         function(&function_, module_, "empty") == CUDA_SUCCESS;
}

// The process ends soon after; the context stays with whoever else retains it.
Bare::~Bare() {
  decltype(&::cuDevicePrimaryCtxRelease) release = nullptr;
  if (context_ != nullptr && find(release, "cuDevicePrimaryCtxRelease_v2")) release(0);
}

bool Bare::make_events(decltype(&::cuEventCreate) create) {
  for (CUevent& event : events_)
    if (create(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) return false;
  return true;
}

double Bare::copy_ns(uint64_t to, uint64_t from, uint64_t bytes) const {
  record_(begin_, stream_);
  copy_(to, from, bytes, stream_);
  record_(end_, stream_);
  synchronize_(stream_);
  float ms = 0;
  elapsed_(&ms, begin_, end_);
  return static_cast<double>(ms) * 1e6;
}

}  // namespace bench
