// SPDX-License-Identifier: Apache-2.0
// handle.hpp: what stands behind tn_device*, tn_memory*, tn_stream*, tn_kernel* and tn_comm*.
//
// Every handle owns the author's object and knows its device.
// Invariant: a handle's first member points to the author's object, so object<T>() is one load.
#pragma once

#include <tenon/device.h>
#include <tenon/kernel.h>
#include <tenon/author/guard.hpp>

#include <atomic>
#include <concepts>
#include <memory>
#include <vector>

namespace tenon::author {

template <class C>
concept OpaqueHandle = std::same_as<C, tn_device> || std::same_as<C, tn_memory> ||
    std::same_as<C, tn_stream> || std::same_as<C, tn_kernel> || std::same_as<C, tn_comm>;

// How many of a device's children live. Counted at creation and destruction only.
struct Children {
  std::atomic<uint32_t> memories{0}, streams{0}, kernels{0}, comms{0}, captures{0};

  bool any() const noexcept { return memories + streams + kernels + comms + captures != 0; }
  // "2 memories, 1 stream"
  std::string words() const {
    std::string out;
    const auto add = [&out](uint32_t count, const char* one, const char* many) {
      if (count == 0) return;
      if (!out.empty()) out += ", ";
      out += text(count, " ", count == 1 ? one : many);
    };
    add(memories, "memory", "memories");
    add(streams, "stream", "streams");
    add(kernels, "kernel", "kernels");
    add(comms, "communicator", "communicators");
    add(captures, "capture", "captures");
    return out;
  }
};

// Counts a child out at the end of its destroy call, whatever happens on the way.
struct Leaving {
  std::atomic<uint32_t>& count;
  ~Leaving() { count.fetch_sub(1); }
};

template <class Device>
struct DeviceHandle {
  Device* object = nullptr;
  uint32_t ordinal = 0;
  tn_device_limits limits{};  // as the device stated them when it was opened
  Children children{};
  std::unique_ptr<Device> owner{};
};

template <class Memory, class Device>
struct MemoryHandle {
  Memory* object = nullptr;
  uint64_t bytes = 0;
  DeviceHandle<Device>* device = nullptr;
  std::unique_ptr<Memory> owner{};
};

template <class Stream, class Device>
struct StreamHandle {
  Stream* object = nullptr;
  std::atomic<uint64_t> issued{0};  // the newest value recorded or promised; waits beyond it are mistakes
  DeviceHandle<Device>* device = nullptr;
  std::unique_ptr<Stream> owner{};
};

// What a kernel may demand of one binding.
struct BindingRule {
  uint64_t bytes = 0;           // at least
  uint64_t alignment_mask = 0;  // offset & mask is 0
};

template <class Kernel, class Device>
struct KernelHandle {
  Kernel* object = nullptr;
  uint64_t rule_count = 0;
  std::vector<BindingRule> rules{};  // inputs, then outputs
  BindingRule workspace{};
  DeviceHandle<Device>* device = nullptr;
  std::unique_ptr<Kernel> owner{};
};

template <class Comm, class Device>
struct CommHandle {
  Comm* object = nullptr;
  uint32_t size = 0;  // ranks; 0 when only the author knows, after a split
  DeviceHandle<Device>* device = nullptr;
  std::unique_ptr<Comm> owner{};
};

// The handle types of one plugin, and the only place that casts between them and the C names.
template <class Plugin>
struct Handles {
  using Device = DeviceHandle<typename Plugin::Device>;
  using Memory = MemoryHandle<typename Plugin::Memory, typename Plugin::Device>;
  using Stream = StreamHandle<typename Plugin::Stream, typename Plugin::Device>;

  static Device& of(tn_device* handle) noexcept { return *reinterpret_cast<Device*>(handle); }
  static Memory& of(tn_memory* handle) noexcept { return *reinterpret_cast<Memory*>(handle); }
  static Stream& of(tn_stream* handle) noexcept { return *reinterpret_cast<Stream*>(handle); }
  static auto& of(tn_kernel* handle) noexcept {
    return *reinterpret_cast<KernelHandle<typename Plugin::Kernel, typename Plugin::Device>*>(handle);
  }
  static auto& of(tn_comm* handle) noexcept {
    return *reinterpret_cast<CommHandle<typename Plugin::Comm, typename Plugin::Device>*>(handle);
  }
};

// The author's own object behind a handle that its plugin made: object<Memory>(span.memory).
// [any-thread; does not block; cannot fail]
template <class Object, OpaqueHandle C>
Object& object(C* handle) noexcept {
  return **reinterpret_cast<Object**>(handle);
}

}  // namespace tenon::author
