// SPDX-License-Identifier: Apache-2.0
// cublaslt.cpp: finding cuBLASLt, and the one table of what its errors mean.
#include "cublaslt.hpp"

#include <tenon/author/text.hpp>

#include <dlfcn.h>

#include <algorithm>
#include <memory>

namespace tenon::cuda {

using author::text;

namespace {

constexpr int oldest_cublaslt = 12, newest_cublaslt = 13;

// A library of CUDA 13 needs a driver for it; one of CUDA 12 runs on both.
std::vector<std::string> cublaslt_places(int driver_version) {
  std::vector<std::string> out;
  for (int major = std::min(driver_version / 1000, newest_cublaslt); major >= oldest_cublaslt; --major) {
    out.push_back(text("libcublasLt.so.", major));
    out.push_back(text("/usr/local/cuda/lib64/libcublasLt.so.", major));
  }
  return out;
}

struct CublasLtMeaning {
  cublasStatus_t status;
  int32_t code;
  const char* remedy;
};

constexpr CublasLtMeaning cublaslt_meanings[] = {
    {CUBLAS_STATUS_NOT_INITIALIZED, TN_INTERNAL,
     "the library did not start on this device: it may be for another driver, or lack memory"},
    {CUBLAS_STATUS_ALLOC_FAILED, TN_NO_MEMORY, "free some, on the device or the host"},
    {CUBLAS_STATUS_INVALID_VALUE, TN_INVALID, "an argument is none that the library takes"},
    {CUBLAS_STATUS_ARCH_MISMATCH, TN_UNSUPPORTED,
     "the library has no code for this chip: install a newer one"},
    {CUBLAS_STATUS_MAPPING_ERROR, TN_INTERNAL, "the device's memory could not be reached"},
    {CUBLAS_STATUS_EXECUTION_FAILED, TN_INTERNAL,
     "the product could not be launched; the stream's next call tells whether the device is lost"},
    {CUBLAS_STATUS_INTERNAL_ERROR, TN_INTERNAL, "CUBLASLT_LOG_LEVEL=5 makes the library tell more"},
    {CUBLAS_STATUS_NOT_SUPPORTED, TN_UNSUPPORTED, "the library has no kernel for it"},
    {CUBLAS_STATUS_LICENSE_ERROR, TN_INTERNAL, "the library's licence was refused"},
};

}  // namespace

std::string cublaslt_version_text(size_t version) {
  return text(version / 10000, ".", version / 100 % 100, ".", version % 100);
}

Result<const CublasLt*> CublasLt::open(int driver_version, const char* path) {
  if (path != nullptr && std::string_view(path) == "off") {
    return Status(
        TN_NOT_FOUND,
        "matrix products are computed by cuBLASLt, which the option cuda.cublaslt = off leaves out");
  }
  static const Result<const CublasLt*> answer = start(driver_version, path);
  if (!answer.ok()) return Status(answer.error());
  return *answer;
}

Result<const CublasLt*> CublasLt::start(int driver_version, const char* path) {
  auto made = std::make_unique<CublasLt>();
  const auto places = path != nullptr ? std::vector<std::string>{path} : cublaslt_places(driver_version);
  std::string tried;
  for (const std::string& place : places) {
    const Status loaded = made->load(place);
    if (loaded.ok()) {
      TN_TRY(made->check_version(place));
      return static_cast<const CublasLt*>(made.release());
    }
    tried += text(tried.empty() ? "" : ", ", loaded.message());
  }
  return Status(TN_NOT_FOUND,
                text("cuBLASLt is missing, and matrix products are computed by it: install libcublas-",
                     std::clamp(driver_version / 1000, oldest_cublaslt, newest_cublaslt),
                     "-*, or name it with the option cuda.cublaslt (tried ", tried, ")"));
}

Status CublasLt::load(const std::string& file) {
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return Status(TN_NOT_FOUND, file);
#define TN_CUBLASLT_SYMBOL(function)                                             \
  function = reinterpret_cast<decltype(&::function)>(dlsym(library, #function)); \
  if (function == nullptr) return Status(TN_VERSION, text(file, " (lacks " #function ")"));
#include "cublaslt_symbols.def"
  return {};
}

Status CublasLt::check_version(const std::string& file) {
  const size_t version = cublasLtGetVersion();
  const bool known = version >= oldest && version < static_cast<size_t>(newest_cublaslt + 1) * 10000;
  if (!known) {
    return Status(TN_VERSION, text(file, " is cuBLASLt ", cublaslt_version_text(version), ": ",
                                   cublaslt_version_text(oldest), " to ", newest_cublaslt,
                                   " are known here; name another with the option cuda.cublaslt"));
  }
  version_ = static_cast<uint32_t>(version);
  return {};
}

Status CublasLt::failed(cublasStatus_t status, const char* call) const {
  Error out{.code = TN_INTERNAL, .domain = "cublaslt", .native_code = status};
  const char* remedy = "report it with what was being done";
  for (const CublasLtMeaning& meaning : cublaslt_meanings) {
    if (meaning.status != status) continue;
    out.code = meaning.code;
    remedy = meaning.remedy;
  }
  out.message = text(call, " gives ", cublasLtGetStatusName(status), ", ", cublasLtGetStatusString(status),
                     ": ", remedy);
  return Status(std::move(out));
}

Result<std::shared_ptr<const CublasLtHandle>> CublasLtHandle::make(std::shared_ptr<Gpu> gpu,
                                                                   const CublasLt& library) {
  const Context& context = *gpu->context();
  const Bound bound(context.driver(), context.handle());
  const Relaxed relaxed(context.driver());
  cublasLtHandle_t native = nullptr;
  TN_CUBLASLT(library, cublasLtCreate, &native);
  return std::shared_ptr<const CublasLtHandle>(
      std::make_shared<CublasLtHandle>(std::move(gpu), library, native));
}

CublasLtHandle::~CublasLtHandle() {
  const Context& context = *gpu_->context();
  const Bound bound(context.driver(), context.handle());
  library_.cublasLtDestroy(native_);
}

}  // namespace tenon::cuda
