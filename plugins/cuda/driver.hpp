// SPDX-License-Identifier: Apache-2.0
// driver.hpp: the CUDA driver, opened when it is first needed and never linked; its errors in Tenon's words.
//
// Invariant: a failure names the driver call, the driver's own code and what to do. Codes after which a context is of no
// more use ("sticky" ones) become TN_DEVICE_LOST, and nothing else does.
#pragma once

#include <tenon/result.hpp>

#include <cuda.h>
#include <cudaTypedefs.h>

#include <string>

namespace tenon::cuda {

struct Driver {
#define TN_CUDA_SYMBOL(name, version) PFN_##name##_v##version name = nullptr;
#include "engine/symbols.def"
  int version = 0;  // 13000: CUDA 13.0

  // Opens libcuda.so.1 and starts the driver: once per process, later calls repeat the first answer. Tells apart: no
  // library, a stub of it, one that is too old, no device. [any-thread; may block; may fail]
  static Result<const Driver*> open();
};

// The oldest driver (as CUDA's version number) and the oldest chip (as 10 × its compute capability) that are served.
inline constexpr int oldest_driver = 12040;
inline constexpr int oldest_sm = 75;

// True for codes after which nothing in the context works any more. [any-thread; does not block; cannot fail]
bool is_sticky(CUresult result) noexcept;

// The failure of `call` ("cuMemCreate"); `about` says what it was called for. Only for a result that is not success.
// [any-thread; does not block; cannot fail]
Status failure(const Driver& driver, CUresult result, const char* call, std::string_view about = "");

// "13.0" for 13000.
std::string version_text(int version);

// Makes a context current for as long as this lives, and leaves the thread as it was found.
class Bound {
 public:
  Bound(const Driver& driver, CUcontext context) noexcept : driver_(driver) {
    CUcontext now = nullptr;
    if (driver.cuCtxGetCurrent(&now) == CUDA_SUCCESS && now == context) return;
    pushed_ = driver.cuCtxPushCurrent(context) == CUDA_SUCCESS;
  }
  Bound(const Bound&) = delete;
  Bound& operator=(const Bound&) = delete;
  ~Bound() {
    CUcontext ours = nullptr;
    if (pushed_) driver_.cuCtxPopCurrent(&ours);
  }

 private:
  const Driver& driver_;
  bool pushed_ = false;
};

// Calls that would break a capture going on in some thread ("relaxed" mode) for as long as this lives.
class Relaxed {
 public:
  explicit Relaxed(const Driver& driver) noexcept : driver_(driver) {
    driver_.cuThreadExchangeStreamCaptureMode(&mode_);
  }
  Relaxed(const Relaxed&) = delete;
  Relaxed& operator=(const Relaxed&) = delete;
  ~Relaxed() { driver_.cuThreadExchangeStreamCaptureMode(&mode_); }

 private:
  const Driver& driver_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

}  // namespace tenon::cuda

// Calls a driver function, and returns the failure from the enclosing function when there is one.
#define TN_CUDA(driver, name, ...)                                    \
  do {                                                                \
    const CUresult tn_cuda_result = (driver).name(__VA_ARGS__);       \
    if (tn_cuda_result != CUDA_SUCCESS) [[unlikely]]                  \
      return ::tenon::cuda::failure((driver), tn_cuda_result, #name); \
  } while (false)
