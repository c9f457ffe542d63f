// SPDX-License-Identifier: Apache-2.0
// device.hpp: Device, one open accelerator: makes streams, buffers and kernels.
//
// Invariant: a device stays open as long as anything made from it lives; copies name the same device.
#pragma once

#include <tenon/device.h>
#include <tenon/buffer.hpp>
#include <tenon/export.hpp>
#include <tenon/kernel.hpp>
#include <tenon/stream.hpp>

#include <memory>
#include <string>
#include <vector>

namespace tenon {

namespace detail {
struct DeviceState;  // core/runtime
}

enum class MemoryKind : uint32_t {
  device = TN_MEMORY_DEVICE,
  host = TN_MEMORY_HOST,
  managed = TN_MEMORY_MANAGED
};

// Totals of the kernel cache.
struct KernelCacheStats {
  uint64_t hits = 0, misses = 0, kernels = 0;
};

class TN_API Device {
 public:
  Device() noexcept = default;
  explicit Device(std::shared_ptr<detail::DeviceState> state) noexcept : state_(std::move(state)) {}
  explicit operator bool() const noexcept { return static_cast<bool>(state_); }

  // "cpu:0". [any-thread; does not block; cannot fail]
  const std::string& name() const noexcept;
  const tn_device_info& info() const noexcept;
  const tn_device_limits& limits() const noexcept;
  // What the host does in the plugin's stead, in words; empty when all is native. [any-thread; does not block]
  const std::vector<std::string>& emulated() const noexcept;
  Result<tn_memory_info> memory_info() const;

  // A new timeline. TN_NO_MEMORY when limits().max_streams are open. [any-thread; may block; may fail]
  Result<Stream> stream(StreamOptions options = {});
  // Memory from the device's pool, owned in `stream`'s order; zero bytes are legal. TN_INVALID for a stream of another
  // device; TN_UNSUPPORTED for a kind that the device lacks; TN_NO_MEMORY with the figures, after work in flight was
  // waited for, a trim and a second try. No lock on the fast path. [any-thread; may block; may fail]
  Result<Buffer> allocate(Stream& stream, uint64_t bytes, MemoryKind kind = MemoryKind::device);
  // Whether, how and at what cost `fragment` runs; remembered by identity. [any-thread; does not block; may fail]
  Result<Support> supports(const Fragment& fragment);
  // Compiles, or finds an equal fragment's kernel in the cache. TN_UNSUPPORTED with the plugin's reason.
  // [any-thread; may block; may fail]
  Result<Kernel> compile(const Fragment& fragment, const CompileOptions& options = {});

  // [any-thread; may block; cannot fail]
  PoolStats pool_stats(MemoryKind kind = MemoryKind::device) const;
  // Gives free pool memory back to the device until at most `keep_bytes` of it stay; memory that work in flight may
  // still touch is not free. [any-thread; may block; may fail]
  Status trim(uint64_t keep_bytes = 0);
  KernelCacheStats kernel_cache_stats() const;
  // Destroys the kernels in the cache that no Kernel names, and forgets what `supports` answered; gives how many they were. For
  // programs that compile ever new shapes: else a kernel lives as long as the device. While a Capture of the device lives
  // nothing is forgotten. [any-thread; may block; cannot fail]
  uint64_t forget_kernels();

  // The ABI underneath, for those who must. [any-thread; does not block; cannot fail]
  tn_device* handle() const noexcept;
  const tn_plugin& plugin() const noexcept;
  const std::shared_ptr<detail::DeviceState>& state() const noexcept { return state_; }

 private:
  std::shared_ptr<detail::DeviceState> state_;
};

}  // namespace tenon
