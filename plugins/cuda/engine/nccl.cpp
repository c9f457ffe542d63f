// SPDX-License-Identifier: Apache-2.0
// nccl.cpp: finding NCCL, and the one table of what its errors mean.
#include "nccl.hpp"

#include <tenon/author/text.hpp>

#include <dlfcn.h>

#include <cstdlib>
#include <memory>
#include <vector>

namespace tenon::cuda {

using author::text;

namespace {

struct NcclMeaning {
  ncclResult_t result;
  int32_t code;
  const char* name;
  const char* remedy;
};

constexpr NcclMeaning nccl_meanings[] = {
    {ncclUnhandledCudaError, TN_INTERNAL, "ncclUnhandledCudaError",
     "a call of CUDA failed inside; NCCL_DEBUG=INFO makes the library tell which"},
    {ncclSystemError, TN_INTERNAL, "ncclSystemError",
     "the system refused it something: look at the network's interfaces (NCCL_SOCKET_IFNAME), shared memory, "
     "limits"},
    {ncclInternalError, TN_INTERNAL, "ncclInternalError", "NCCL_DEBUG=INFO makes the library tell more"},
    {ncclInvalidArgument, TN_INVALID, "ncclInvalidArgument", "an argument is none that the library takes"},
    {ncclInvalidUsage, TN_INVALID, "ncclInvalidUsage",
     "the ranks do not use it alike, or two of them are on one device"},
    {ncclRemoteError, TN_PEER_LOST, "ncclRemoteError", "another rank ended, or cannot be reached any more"},
    {ncclInProgress, TN_BUSY, "ncclInProgress", "it is on its way"},
};

}  // namespace

std::string nccl_version_text(int version) {
  return text(version / 10000, ".", version / 100 % 100, ".", version % 100);
}

Result<const Nccl*> Nccl::open(const char* path) {
  if (path != nullptr && std::string_view(path) == "off")
    return Status(TN_NOT_FOUND, "the option cuda.nccl = off leaves NCCL out");
  static const Result<const Nccl*> answer = start(path);
  if (!answer.ok()) return Status(answer.error());
  return *answer;
}

Result<const Nccl*> Nccl::start(const char* path) {
  setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 0);
  auto made = std::make_unique<Nccl>();
  const auto places = path != nullptr
                          ? std::vector<std::string>{path}
                          : std::vector<std::string>{"libnccl.so.2", "/usr/local/cuda/lib64/libnccl.so.2"};
  std::string tried;
  for (const std::string& place : places) {
    const Status loaded = made->load(place);
    if (loaded.ok()) {
      TN_TRY(made->check_version(place));
      return static_cast<const Nccl*>(made.release());
    }
    tried += text(tried.empty() ? "" : ", ", loaded.message());
  }
  return Status(
      TN_NOT_FOUND,
      text("NCCL is missing: install libnccl2, or name it with the option cuda.nccl (tried ", tried, ")"));
}

Status Nccl::load(const std::string& file) {
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return Status(TN_NOT_FOUND, file);
#define TN_NCCL_SYMBOL(function)                                                 \
  function = reinterpret_cast<decltype(&::function)>(dlsym(library, #function)); \
  if (function == nullptr) return Status(TN_VERSION, text(file, " (lacks " #function ")"));
#include "nccl_symbols.def"
  return {};
}

Status Nccl::check_version(const std::string& file) {
  TN_TRY(check(ncclGetVersion(&version_), "ncclGetVersion"));
  if (version_ >= oldest) return {};
  return Status(TN_VERSION,
                text(file, " is NCCL ", nccl_version_text(version_), ": ", nccl_version_text(oldest),
                     " or newer is needed; name another with the option cuda.nccl"));
}

Status Nccl::check(ncclResult_t result, const char* call, ncclComm_t comm) const {
  if (result == ncclSuccess || result == ncclInProgress) return {};
  Error out{.code = TN_INTERNAL, .domain = "nccl", .native_code = result};
  const char* name = "an unknown result";
  const char* remedy = "report it with what was being done";
  for (const NcclMeaning& meaning : nccl_meanings) {
    if (meaning.result != result) continue;
    out.code = meaning.code;
    name = meaning.name;
    remedy = meaning.remedy;
  }
  const char* const last = ncclGetLastError(comm);
  const bool told = last != nullptr && last[0] != '\0';
  out.message = text(call, " gives ", name, ", ", ncclGetErrorString(result), told ? " (" : "",
                     told ? last : "", told ? ")" : "", ": ", remedy);
  return Status(std::move(out));
}

}  // namespace tenon::cuda
