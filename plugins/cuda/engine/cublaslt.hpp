// SPDX-License-Identifier: Apache-2.0
// cublaslt.hpp: NVIDIA's library of matrix products, opened when the first product is asked for; its errors in Tenon's words.
//
// Invariant: one cuBLASLt per process, of a major version that the driver runs. A failure names the library's call, its own
// code and what to do.
#pragma once

#include "gpu.hpp"

#include <tenon/result.hpp>

#include <cublasLt.h>

#include <string>

namespace tenon::cuda {

class CublasLt {
 public:
#define TN_CUBLASLT_SYMBOL(name) decltype(&::name) name = nullptr;
#include "cublaslt_symbols.def"

  // The oldest version that Tenon takes, as the library numbers itself.
  static constexpr size_t oldest = 120400;

  // `path` is the library to take (an option), "off" for none, or nullptr for the usual places. The first answer of a library
  // stands for the process. TN_NOT_FOUND says what to install, TN_VERSION what is too old or too new.
  // [any-thread; may block; may fail]
  static Result<const CublasLt*> open(int driver_version, const char* path);

  uint32_t version() const noexcept { return version_; }  // 130100: 13.1.0
  // The failure of `call`; only for a status that is not success. [any-thread; does not block; cannot fail]
  Status failed(cublasStatus_t status, const char* call) const;

 private:
  static Result<const CublasLt*> start(int driver_version, const char* path);
  Status load(const std::string& file);
  Status check_version(const std::string& file);

  uint32_t version_ = 0;
};

// "13.1.0" for 130100.
std::string cublaslt_version_text(size_t version);

// A handle of the library for one device. Graphs of products keep it.
class CublasLtHandle {
 public:
  // [any-thread; may block; may fail]
  static Result<std::shared_ptr<const CublasLtHandle>> make(std::shared_ptr<Gpu> gpu,
                                                            const CublasLt& library);
  CublasLtHandle(std::shared_ptr<Gpu> gpu, const CublasLt& library, cublasLtHandle_t native)
      : gpu_(std::move(gpu)), library_(library), native_(native) {}
  CublasLtHandle(const CublasLtHandle&) = delete;
  CublasLtHandle& operator=(const CublasLtHandle&) = delete;
  ~CublasLtHandle();

  const std::shared_ptr<Gpu>& gpu() const noexcept { return gpu_; }
  const CublasLt& library() const noexcept { return library_; }
  cublasLtHandle_t native() const noexcept { return native_; }

 private:
  std::shared_ptr<Gpu> gpu_;
  const CublasLt& library_;
  cublasLtHandle_t native_;
};

}  // namespace tenon::cuda

// Calls a function of the library, and returns the failure from the enclosing function when there is one.
#define TN_CUBLASLT(library, name, ...)                              \
  do {                                                               \
    const cublasStatus_t tn_lt_status = (library).name(__VA_ARGS__); \
    if (tn_lt_status != CUBLAS_STATUS_SUCCESS) [[unlikely]]          \
      return (library).failed(tn_lt_status, #name);                  \
  } while (false)
