// SPDX-License-Identifier: Apache-2.0
// cudnn.hpp: NVIDIA's library of convolutions and attention, opened when the first is asked for; its descriptors and its errors in Tenon's words.
//
// Invariant: one cuDNN per process, of major version 9. A failure names the library's call, its own code and its own reason.
#pragma once

#include <tenon/result.hpp>

#include <cudnn.h>

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tenon::cuda {

class Cudnn {
 public:
#define TN_CUDNN_SYMBOL(name) decltype(&::name) name = nullptr;
#include "cudnn_symbols.def"

  // The oldest version that Tenon takes, as the library numbers itself: plans are made for a described device since 9.8.
  static constexpr size_t oldest = 90800;

  // `path` is the library to take (an option), "off" for none, or nullptr for the usual places; `what` ("convolutions") is
  // what cannot be computed without it, in messages. The first answer of a library stands for the process. TN_NOT_FOUND says
  // what to install, TN_VERSION what is too old or too new. [any-thread; may block; may fail]
  static Result<const Cudnn*> open(const char* path, const char* what);

  uint32_t version() const noexcept { return version_; }  // 91900: 9.19.0
  // The failure of `call`; only for a status that is not success. [any-thread; does not block; cannot fail]
  Status failed(cudnnStatus_t status, const char* call) const;

 private:
  static Result<const Cudnn*> start(const char* path);
  Status load(const std::string& file);
  Status check_version(const std::string& file);

  uint32_t version_ = 0;
};

// "9.19.0" for 91900.
std::string cudnn_version_text(size_t version);

// A backend descriptor. Descriptors that it was made of may end before it does.
class Descriptor {
 public:
  // [any-thread; does not block; may fail]
  static Result<Descriptor> make(const Cudnn& library, cudnnBackendDescriptorType_t type);
  Descriptor() = default;
  Descriptor(Descriptor&& other) noexcept
      : library_(other.library_), native_(std::exchange(other.native_, nullptr)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(library_, other.library_);
    std::swap(native_, other.native_);
    return *this;
  }
  ~Descriptor();

  const Cudnn& library() const noexcept { return *library_; }
  cudnnBackendDescriptor_t native() const noexcept { return native_; }

  // [owner's thread; does not block; may fail]
  Status set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
             const void* values);
  Status set(cudnnBackendAttributeName_t name, std::span<const int64_t> values);
  Status set(cudnnBackendAttributeName_t name, const Descriptor& part);
  Status set_type(cudnnBackendAttributeName_t name, cudnnDataType_t type);
  // Nothing is set any more from here on. [owner's thread; may block; may fail]
  Status finalize();

  Result<int64_t> integer(cudnnBackendAttributeName_t name) const;
  Result<std::string> characters(cudnnBackendAttributeName_t name) const;

 private:
  Descriptor(const Cudnn& library, cudnnBackendDescriptor_t native) : library_(&library), native_(native) {}

  const Cudnn* library_ = nullptr;
  cudnnBackendDescriptor_t native_ = nullptr;
};

}  // namespace tenon::cuda

// Calls a function of the library, and returns the failure from the enclosing function when there is one.
#define TN_CUDNN(library, name, ...)                                 \
  do {                                                               \
    const cudnnStatus_t tn_dnn_status = (library).name(__VA_ARGS__); \
    if (tn_dnn_status != CUDNN_STATUS_SUCCESS) [[unlikely]]          \
      return (library).failed(tn_dnn_status, #name);                 \
  } while (false)
