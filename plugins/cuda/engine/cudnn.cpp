// SPDX-License-Identifier: Apache-2.0
// cudnn.cpp: finding cuDNN, what its errors mean, and its descriptors.
#include "cudnn.hpp"

#include <tenon/author/text.hpp>

#include <dlfcn.h>

#include <memory>

namespace tenon::cuda {

using author::text;

namespace {

constexpr const char* cudnn_places[] = {"libcudnn.so.9", "/usr/local/cuda/lib64/libcudnn.so.9"};

// Statuses come in families of a thousand.
int32_t cudnn_code(cudnnStatus_t status) noexcept {
  switch (status / 1000) {
    case CUDNN_STATUS_BAD_PARAM / 1000:
      return TN_INVALID;
    case CUDNN_STATUS_NOT_SUPPORTED / 1000:
      return TN_UNSUPPORTED;
    default:
      return status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED ||
                     status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED
                 ? TN_NO_MEMORY
                 : TN_INTERNAL;
  }
}

}  // namespace

std::string cudnn_version_text(size_t version) {
  return text(version / 10000, ".", version / 100 % 100, ".", version % 100);
}

Result<const Cudnn*> Cudnn::open(const char* path, const char* what) {
  if (path != nullptr && std::string_view(path) == "off") {
    return Status(TN_NOT_FOUND,
                  text("cuDNN computes ", what, ", and the option cuda.cudnn = off leaves it out"));
  }
  static const Result<const Cudnn*> answer = start(path);
  if (!answer.ok()) return Status(answer.code(), text("cuDNN computes ", what, ": ", answer.message()));
  return *answer;
}

Result<const Cudnn*> Cudnn::start(const char* path) {
  auto made = std::make_unique<Cudnn>();
  const auto places = path != nullptr
                          ? std::vector<std::string>{path}
                          : std::vector<std::string>(std::begin(cudnn_places), std::end(cudnn_places));
  std::string tried;
  for (const std::string& place : places) {
    const Status loaded = made->load(place);
    if (loaded.ok()) {
      TN_TRY(made->check_version(place));
      return static_cast<const Cudnn*>(made.release());
    }
    tried += text(tried.empty() ? "" : ", ", loaded.message());
  }
  return Status(
      TN_NOT_FOUND,
      text("it is missing: install libcudnn9-cuda-12 or -13, as the driver is, or name it with the option "
           "cuda.cudnn (tried ",
           tried, ")"));
}

Status Cudnn::load(const std::string& file) {
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return Status(TN_NOT_FOUND, file);
#define TN_CUDNN_SYMBOL(function)                                                \
  function = reinterpret_cast<decltype(&::function)>(dlsym(library, #function)); \
  if (function == nullptr) return Status(TN_VERSION, text(file, " (lacks " #function ")"));
#include "cudnn_symbols.def"
  return {};
}

Status Cudnn::check_version(const std::string& file) {
  const size_t version = cudnnGetVersion();
  if (version < oldest || version >= 100000) {
    return Status(TN_VERSION,
                  text(file, " is cuDNN ", cudnn_version_text(version), ": ", cudnn_version_text(oldest),
                       " to 9 are known here; name another with the option cuda.cudnn"));
  }
  version_ = static_cast<uint32_t>(version);
  return {};
}

Status Cudnn::failed(cudnnStatus_t status, const char* call) const {
  char said[512] = {};
  cudnnGetLastErrorString(said, sizeof said);
  const std::string reason = said[0] != '\0' ? text(" (", said, ")") : std::string();
  return Status(Error{
      .code = cudnn_code(status),
      .message = text(call, " gives ", cudnnGetErrorString(status), reason,
                      ": CUDNN_LOGLEVEL_DBG=2 with CUDNN_LOGDEST_DBG=stderr makes the library tell more"),
      .domain = "cudnn",
      .native_code = status});
}

Result<Descriptor> Descriptor::make(const Cudnn& library, cudnnBackendDescriptorType_t type) {
  cudnnBackendDescriptor_t native = nullptr;
  TN_CUDNN(library, cudnnBackendCreateDescriptor, type, &native);
  return Descriptor(library, native);
}

Descriptor::~Descriptor() {
  if (native_ != nullptr) library_->cudnnBackendDestroyDescriptor(native_);
}

Status Descriptor::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
                       const void* values) {
  TN_CUDNN(*library_, cudnnBackendSetAttribute, native_, name, type, count, values);
  return {};
}

Status Descriptor::set(cudnnBackendAttributeName_t name, std::span<const int64_t> values) {
  return set(name, CUDNN_TYPE_INT64, static_cast<int64_t>(values.size()), values.data());
}

Status Descriptor::set(cudnnBackendAttributeName_t name, const Descriptor& part) {
  return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &part.native_);
}

Status Descriptor::set_type(cudnnBackendAttributeName_t name, cudnnDataType_t type) {
  return set(name, CUDNN_TYPE_DATA_TYPE, 1, &type);
}

Status Descriptor::finalize() {
  TN_CUDNN(*library_, cudnnBackendFinalize, native_);
  return {};
}

Result<int64_t> Descriptor::integer(cudnnBackendAttributeName_t name) const {
  int64_t out = 0, count = 0;
  TN_CUDNN(*library_, cudnnBackendGetAttribute, native_, name, CUDNN_TYPE_INT64, 1, &count, &out);
  return out;
}

Result<std::string> Descriptor::characters(cudnnBackendAttributeName_t name) const {
  int64_t count = 0;
  TN_CUDNN(*library_, cudnnBackendGetAttribute, native_, name, CUDNN_TYPE_CHAR, 0, &count, nullptr);
  std::string out(static_cast<size_t>(count), '\0');
  TN_CUDNN(*library_, cudnnBackendGetAttribute, native_, name, CUDNN_TYPE_CHAR, count, &count, out.data());
  return out;
}

}  // namespace tenon::cuda
