// SPDX-License-Identifier: Apache-2.0
// objects.hpp: device, memory and stream as a case handles them: RAII over the tables, each failure with its words.
//
// Invariant: what a case makes is ended before the case ends, so a device that will not close is the plugin's leak.
// Memory stands before the streams that use it, so that streams end first.
#pragma once

#include "conformance/context.hpp"

#include <tenon/abi.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tenon::conform {

using Bytes = std::vector<std::byte>;

// A span of ordinary host memory. [any-thread; does not block; cannot fail]
inline tn_span host_span(const void* data, uint64_t bytes) noexcept {
  return {nullptr, reinterpret_cast<uintptr_t>(data), bytes, TN_SPACE_HOST_ADDRESS, 0};
}

class Memory {
 public:
  Memory() = default;
  Memory(Context& t, const Tables& api, tn_memory* handle, uint64_t bytes)
      : t_(&t), api_(&api), handle_(handle), bytes_(bytes) {}
  Memory(Memory&& other) noexcept { swap(other); }
  Memory& operator=(Memory&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Memory() { static_cast<void>(release()); }

  tn_memory* handle() const noexcept { return handle_; }
  uint64_t bytes() const noexcept { return bytes_; }
  tn_span span() const noexcept { return span(0, bytes_); }
  tn_span span(uint64_t offset, uint64_t bytes) const noexcept {
    return {handle_, offset, bytes, TN_SPACE_MEMORY, 0};
  }
  // Frees it now; a failure counts against the case. [any-thread]
  Status release();
  // TN_UNSUPPORTED where the plugin has no addresses. [any-thread]
  Result<uint64_t> address() const;

 private:
  void swap(Memory& other) noexcept;
  Context* t_ = nullptr;
  const Tables* api_ = nullptr;
  tn_memory* handle_ = nullptr;
  uint64_t bytes_ = 0;
};

class Stream {
 public:
  Stream() = default;
  Stream(Context& t, const Tables& api, tn_stream* handle) : t_(&t), api_(&api), handle_(handle) {}
  Stream(Stream&& other) noexcept { swap(other); }
  Stream& operator=(Stream&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Stream();

  tn_stream* handle() const noexcept { return handle_; }
  Status copy(const tn_span& dst, const tn_span& src) const;
  Status copy_strided(const tn_span& dst, const tn_span& src, const tn_copy_shape& shape) const;
  Status fill(const tn_span& dst, uint64_t pattern, uint32_t pattern_bytes) const;
  Result<uint64_t> record(uint32_t flags = 0) const;
  Status wait(const Stream& other, uint64_t value) const;
  Result<uint64_t> completed() const;
  // Blocks for at most the settings' patience. [any-thread]
  Status sync(uint64_t value) const;
  Status sync(uint64_t value, uint64_t timeout_ns) const;
  // Records and waits for it. [stream's thread]
  Status finish() const;
  Result<uint64_t> timestamp(uint64_t value) const;
  Status host_call(void (*function)(void*), void* argument) const;
  Result<uint64_t> promise() const;
  Status signal(uint64_t value, int32_t code = TN_OK) const;
  // Ends the stream now. [stream's thread]
  Status destroy(uint32_t mode = TN_DESTROY_COMPLETE);
  // Whatever destroy says is expected from here on: the case broke the stream on purpose.
  void forgive() noexcept { forgiven_ = true; }

 private:
  void swap(Stream& other) noexcept;
  Context* t_ = nullptr;
  const Tables* api_ = nullptr;
  tn_stream* handle_ = nullptr;
  bool forgiven_ = false;
};

class Device {
 public:
  static Result<std::unique_ptr<Device>> open(Context& t, uint32_t ordinal);
  Device(Context& t, const Tables& api, tn_device* handle) : t_(t), api_(api), handle_(handle) {}
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  ~Device();

  tn_device* handle() const noexcept { return handle_; }
  const Tables& api() const noexcept { return api_; }
  bool has(uint64_t feature) const noexcept { return (api_.copy.features & feature) != 0; }
  Status close();
  Result<tn_device_limits> limits() const;
  Result<tn_memory_info> memory_info() const;
  Result<Memory> alloc(uint64_t bytes, uint32_t kind = TN_MEMORY_DEVICE, uint64_t alignment = 0) const;
  Result<Stream> stream(uint32_t priority = 0, const char* name = nullptr) const;

 private:
  Context& t_;
  Tables api_;
  tn_device* handle_;
};

// Copies to the device and back, and waits. [stream's thread]
Status upload(const Stream& stream, const tn_span& dst, std::span<const std::byte> src);
Result<Bytes> download(const Stream& stream, const tn_span& src);
// Fails the case where the bytes differ, telling place and values. [any-thread]
bool same_bytes(Context& t, std::span<const std::byte> expected, std::span<const std::byte> found,
                const std::string& where);
// Random bytes. [case's thread]
Bytes random_bytes(Random& random, uint64_t bytes);

}  // namespace tenon::conform
