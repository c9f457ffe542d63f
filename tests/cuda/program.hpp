// SPDX-License-Identifier: Apache-2.0
// program.hpp: the driver as any program uses it: opened by name, functions by cuGetProcAddress, one current context.
//
// A Program starts with settings of its own for the test-only driver, and gives the context back at its end, so one test
// may meet several settings in turn.
// Invariant: one Program lives at a time, and outlives every handle made in it.
#pragma once

#include <doctest/doctest.h>

#include <cudaTypedefs.h>
#include <dlfcn.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace cuda_test {

// Every function of the plugin's list, by its name.
struct Functions {
#define TN_CUDA_SYMBOL(name, version) PFN_##name##_v##version name = nullptr;
#include "plugins/cuda/engine/symbols.def"
};

inline void* library() {
  static void* const opened = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) FAIL(std::string(dlerror()));
  return opened;
}

inline PFN_cuGetProcAddress_v12000 finder() {
  const auto found = reinterpret_cast<PFN_cuGetProcAddress_v12000>(dlsym(library(), "cuGetProcAddress_v2"));
  REQUIRE((found != nullptr));
  return found;
}

inline const Functions& cu() {
  static const Functions functions = [] {
    Functions out;
    const auto find = finder();
    void* found = nullptr;
#define TN_CUDA_SYMBOL(name, version)                                                          \
  REQUIRE(find(#name, &found, version, CU_GET_PROC_ADDRESS_DEFAULT, nullptr) == CUDA_SUCCESS); \
  REQUIRE_MESSAGE((found != nullptr), #name);                                                  \
  out.name = reinterpret_cast<PFN_##name##_v##version>(found);
#include "plugins/cuda/engine/symbols.def"
    return out;
  }();
  return functions;
}

// Settings as FAKECUDA gives them.
inline CUresult configure(const std::string& settings) {
  const auto found = reinterpret_cast<CUresult (*)(const char*)>(dlsym(library(), "fakecuda_configure"));
  REQUIRE((found != nullptr));
  return found(settings.c_str());
}

// Ends the test case unless the call succeeds.
inline void must(CUresult code) {
  if (code == CUDA_SUCCESS) return;
  const char* name = nullptr;
  cu().cuGetErrorName(code, &name);
  FAIL("code " << static_cast<int>(code) << ": " << std::string(name != nullptr ? name : "?"));
}

class Program {
 public:
  explicit Program(const std::string& settings = "") {
    REQUIRE(configure(settings) == CUDA_SUCCESS);
    must(cu().cuInit(0));
    must(cu().cuDevicePrimaryCtxRetain(&context_, 0));
    must(cu().cuCtxPushCurrent(context_));
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() {
    CHECK(cu().cuCtxPopCurrent(nullptr) == CUDA_SUCCESS);
    CHECK(cu().cuDevicePrimaryCtxRelease(0) == CUDA_SUCCESS);
  }
  CUcontext context() const { return context_; }

 private:
  CUcontext context_ = nullptr;
};

inline CUstream make_stream(unsigned flags = CU_STREAM_NON_BLOCKING) {
  CUstream out = nullptr;
  must(cu().cuStreamCreateWithPriority(&out, flags, 0));
  return out;
}

inline CUevent make_event(unsigned flags = CU_EVENT_DISABLE_TIMING) {
  CUevent out = nullptr;
  must(cu().cuEventCreate(&out, flags));
  return out;
}

inline CUevent record(CUstream stream) {
  const CUevent out = make_event();
  must(cu().cuEventRecord(out, stream));
  return out;
}

inline void wait(CUstream stream, CUevent event) {
  must(cu().cuStreamWaitEvent(stream, event, CU_EVENT_WAIT_DEFAULT));
}
inline void sync(CUstream stream) { must(cu().cuStreamSynchronize(stream)); }

inline constexpr size_t unit = size_t{2} << 20;

inline CUmemAllocationProp on_device(int device = 0) {
  CUmemAllocationProp out{};
  out.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  out.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
  return out;
}

inline CUmemAccessDesc access_for(int device, CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
  CUmemAccessDesc out{};
  out.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
  out.flags = flags;
  return out;
}

// Device memory, mapped and accessible, for as long as it lives.
class Memory {
 public:
  explicit Memory(size_t bytes = unit, int device = 0) : bytes_(bytes) {
    const CUmemAllocationProp properties = on_device(device);
    const CUmemAccessDesc access = access_for(device);
    CUmemGenericAllocationHandle piece = 0;
    must(cu().cuMemCreate(&piece, bytes_, &properties, 0));
    must(cu().cuMemAddressReserve(&at_, bytes_, 0, 0, 0));
    must(cu().cuMemMap(at_, bytes_, 0, piece, 0));
    must(cu().cuMemRelease(piece));
    must(cu().cuMemSetAccess(at_, bytes_, &access, 1));
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() {
    CHECK(cu().cuMemUnmap(at_, bytes_) == CUDA_SUCCESS);
    CHECK(cu().cuMemAddressFree(at_, bytes_) == CUDA_SUCCESS);
  }
  operator CUdeviceptr() const { return at_; }

 private:
  CUdeviceptr at_ = 0;
  size_t bytes_;
};

// Pinned host memory.
template <class T>
class Pinned {
 public:
  explicit Pinned(size_t count) : count_(count) {
    void* at = nullptr;
    must(cu().cuMemHostAlloc(&at, count * sizeof(T), CU_MEMHOSTALLOC_PORTABLE));
    at_ = static_cast<T*>(at);
  }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  ~Pinned() { cu().cuMemFreeHost(at_); }
  T& operator[](size_t i) const { return at_[i]; }
  CUdeviceptr address(size_t i = 0) const { return reinterpret_cast<CUdeviceptr>(at_ + i); }
  size_t count() const { return count_; }

 private:
  T* at_ = nullptr;
  size_t count_;
};

inline CUdeviceptr address_of(const void* host) { return reinterpret_cast<CUdeviceptr>(host); }

template <class T>
T download(CUdeviceptr from, CUstream stream) {
  T out{};
  must(cu().cuMemcpyAsync(address_of(&out), from, sizeof out, stream));
  sync(stream);
  return out;
}

// Holds a stream until it is opened; then the stream's later work may run.
class Gate {
 public:
  explicit Gate(CUstream stream) : word_(1) {
    word_[0] = 0;
    must(cu().cuStreamWaitValue64(stream, word_.address(), 1, CU_STREAM_WAIT_VALUE_GEQ));
  }
  void open() { __atomic_store_n(&word_[0], 1, __ATOMIC_RELEASE); }

 private:
  Pinned<uint64_t> word_;
};

}  // namespace cuda_test
