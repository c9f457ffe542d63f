// SPDX-License-Identifier: Apache-2.0
// driver.cpp: finding libcuda.so.1, and the one table of what its errors mean.
#include "driver.hpp"

#include <tenon/author/text.hpp>

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>

namespace tenon::cuda {

using author::text;

namespace {

constexpr std::string_view domain = "cuda";

Status refusal(int32_t code, std::string message, CUresult native = CUDA_SUCCESS) {
  return Status(Error{
      .code = code, .message = std::move(message), .domain = std::string(domain), .native_code = native});
}

// What a driver that does not start means for whoever reads `tenon doctor`.
Status cannot_start(CUresult result) {
  switch (result) {
    case CUDA_ERROR_STUB_LIBRARY:
      return refusal(TN_NOT_FOUND,
                     "libcuda.so.1 is the toolkit's stub, which is for linking only: take its folder off "
                     "LD_LIBRARY_PATH, and install the NVIDIA driver",
                     result);
    case CUDA_ERROR_NO_DEVICE:
      return refusal(TN_NOT_FOUND,
                     "the NVIDIA driver finds no device: check CUDA_VISIBLE_DEVICES, `nvidia-smi`, and that "
                     "a container is given its GPUs",
                     result);
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
      return refusal(TN_VERSION,
                     "libcuda.so.1 and the NVIDIA kernel module are of different versions: reboot, or "
                     "reinstall the driver",
                     result);
    case CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
      return refusal(TN_UNSUPPORTED,
                     "a forward-compatibility libcuda.so.1 was found, and this device takes none: take "
                     "cuda-compat off LD_LIBRARY_PATH",
                     result);
    default:
      return refusal(TN_INTERNAL,
                     text("the NVIDIA driver does not start (cuInit gives ", static_cast<int>(result),
                          "): `nvidia-smi` tells more"),
                     result);
  }
}

// Every function in the version that its type states. A stub refuses each of them, before cuInit could.
Status find_functions(Driver& driver, PFN_cuGetProcAddress_v12000 find) {
#define TN_CUDA_SYMBOL(function, since)                                                            \
  {                                                                                                \
    void* found = nullptr;                                                                         \
    CUdriverProcAddressQueryResult how{};                                                          \
    const CUresult result = find(#function, &found, since, CU_GET_PROC_ADDRESS_DEFAULT, &how);     \
    if (result == CUDA_ERROR_STUB_LIBRARY) return cannot_start(result);                            \
    if (result != CUDA_SUCCESS || found == nullptr) {                                              \
      return refusal(                                                                              \
          TN_VERSION,                                                                              \
          text("the NVIDIA driver has no " #function " of CUDA " #since ": install one for CUDA ", \
               version_text(oldest_driver), " or newer"),                                          \
          result);                                                                                 \
    }                                                                                              \
    driver.function = reinterpret_cast<PFN_##function##_v##since>(found);                          \
  }
#include "engine/symbols.def"
  return {};
}

// Streams that share a queue of the device hold each other up, so one that waits for a promise or for another rank can wait for ever.
// The driver has eight queues, and more if the environment says so as it makes a context.
constexpr const char* queues_variable = "CUDA_DEVICE_MAX_CONNECTIONS";
constexpr const char* most_queues = "32";

Result<const Driver*> start() {
  setenv(queues_variable, most_queues, 0);
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = dlerror();
    return refusal(TN_NOT_FOUND, text("no NVIDIA driver: libcuda.so.1 does not open (",
                                      reason != nullptr ? reason : "no reason given",
                                      "); install the NVIDIA driver for this system"));
  }
  const auto find = reinterpret_cast<PFN_cuGetProcAddress_v12000>(dlsym(library, "cuGetProcAddress_v2"));
  if (find == nullptr) {
    return refusal(TN_VERSION, text("the NVIDIA driver is older than CUDA 12: install one for CUDA ",
                                    version_text(oldest_driver), " or newer"));
  }
  static Driver driver;
  TN_TRY(find_functions(driver, find));
  if (const CUresult result = driver.cuInit(0); result != CUDA_SUCCESS) return cannot_start(result);
  TN_CUDA(driver, cuDriverGetVersion, &driver.version);
  if (driver.version < oldest_driver) {
    return refusal(TN_VERSION, text("the NVIDIA driver is for CUDA ", version_text(driver.version),
                                    ": install one for CUDA ", version_text(oldest_driver), " or newer"));
  }
  return static_cast<const Driver*>(&driver);
}

// The codes of a context that is lost. What the driver documents as "the process must be terminated and relaunched".
constexpr CUresult sticky[] = {
    CUDA_ERROR_ECC_UNCORRECTABLE,     CUDA_ERROR_NVLINK_UNCORRECTABLE, CUDA_ERROR_ILLEGAL_ADDRESS,
    CUDA_ERROR_LAUNCH_TIMEOUT,        CUDA_ERROR_CONTEXT_IS_DESTROYED, CUDA_ERROR_ASSERT,
    CUDA_ERROR_HARDWARE_STACK_ERROR,  CUDA_ERROR_ILLEGAL_INSTRUCTION,  CUDA_ERROR_MISALIGNED_ADDRESS,
    CUDA_ERROR_INVALID_ADDRESS_SPACE, CUDA_ERROR_INVALID_PC,           CUDA_ERROR_LAUNCH_FAILED,
    CUDA_ERROR_EXTERNAL_DEVICE,
};

struct Meaning {
  CUresult result;
  int32_t code;
  const char* remedy;
};

constexpr Meaning meanings[] = {
    {CUDA_ERROR_INVALID_VALUE, TN_INVALID, "an address or a size is not what the device takes"},
    {CUDA_ERROR_INVALID_HANDLE, TN_INVALID, "a handle is of another context, or gone"},
    {CUDA_ERROR_OUT_OF_MEMORY, TN_NO_MEMORY, "free some, or run with less"},
    {CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, TN_NO_MEMORY,
     "the launch takes more registers or shared memory than are there; nothing is lost"},
    {CUDA_ERROR_NOT_SUPPORTED, TN_UNSUPPORTED, "this device or driver does not do it"},
    {CUDA_ERROR_NOT_PERMITTED, TN_INVALID, "it is not allowed here"},
    {CUDA_ERROR_DEVICE_UNAVAILABLE, TN_BUSY, "another process holds the device: `nvidia-smi` names it"},
    {CUDA_ERROR_NO_BINARY_FOR_GPU, TN_MISMATCH, "the code was built for another chip"},
    {CUDA_ERROR_INVALID_IMAGE, TN_MISMATCH, "the code is damaged, or for another driver"},
    {CUDA_ERROR_UNSUPPORTED_PTX_VERSION, TN_MISMATCH, "the code needs a newer driver"},
    {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, TN_INVALID, "it cannot be done while a stream is captured"},
    {CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, TN_INVALID, "an earlier call broke this capture"},
    {CUDA_ERROR_STREAM_CAPTURE_UNJOINED, TN_INVALID,
     "a stream that joined the capture has not rejoined: let the first stream wait for it"},
    {CUDA_ERROR_STREAM_CAPTURE_ISOLATION, TN_INVALID, "the capture would depend on work outside of it"},
    {CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, TN_INVALID, "the default stream cannot take part in a capture"},
    {CUDA_ERROR_CAPTURED_EVENT, TN_INVALID, "the value was recorded in a capture, and is local to it"},
};

}  // namespace

Result<const Driver*> Driver::open() {
  static const Result<const Driver*> answer = start();
  if (!answer.ok()) return Status(answer.error());
  return *answer;
}

bool is_sticky(CUresult result) noexcept {
  return std::find(std::begin(sticky), std::end(sticky), result) != std::end(sticky);
}

Status failure(const Driver& driver, CUresult result, const char* call, std::string_view about) {
  const char *name = nullptr, *words = nullptr;
  if (driver.cuGetErrorName(result, &name) != CUDA_SUCCESS || name == nullptr) name = "an unknown code";
  if (driver.cuGetErrorString(result, &words) != CUDA_SUCCESS || words == nullptr) words = "no description";
  Error out{.code = TN_INTERNAL, .domain = std::string(domain), .native_code = result};
  const char* remedy = "report it with what was being done";
  for (const Meaning& meaning : meanings) {
    if (meaning.result != result) continue;
    out.code = meaning.code;
    remedy = meaning.remedy;
  }
  if (is_sticky(result)) {
    out.code = TN_DEVICE_LOST;
    out.flags = TN_ERROR_ASYNC;
    remedy = "the device's context is lost for this process: destroy what is left, and start it anew";
  }
  out.message = text(call, about.empty() ? "" : " (", about, about.empty() ? "" : ")", " gives ", name, ", ",
                     words, ": ", remedy);
  return Status(std::move(out));
}

std::string version_text(int version) { return text(version / 1000, ".", version % 1000 / 10); }

}  // namespace tenon::cuda
