// SPDX-License-Identifier: Apache-2.0
// device_state.hpp: one open device with its pools, kernels and helper stream.
//
// Invariant: everything made from a device shares ownership of this state, so it ends last: kernels, then pool memory,
// then the device itself, then the runtime behind it.
#pragma once

#include "runtime/kernel_cache.hpp"
#include "runtime/pool/pool.hpp"

#include <tenon/plugin.h>
#include <tenon/device.hpp>
#include <tenon/runtime.hpp>

#include <array>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace tenon::detail {

struct RuntimeState;
using DeviceLog = std::function<void(LogLevel level, const std::string& text)>;

struct DeviceState : std::enable_shared_from_this<DeviceState> {
  const tn_plugin* plugin = nullptr;  // complete tables, perhaps of a layer
  tn_device* handle = nullptr;
  std::string name;  // "cpu:0"
  tn_device_info info{};
  tn_device_limits limits{};
  std::vector<std::string> emulated;
  DeviceLog log;
  std::shared_ptr<RuntimeState> owner;  // outlives the device; null when no runtime opened it

  std::array<std::unique_ptr<runtime::Pool>, 3> pools;  // by memory kind
  std::unique_ptr<runtime::KernelCache> kernels;
  std::mutex staging_mutex;
  tn_stream* staging = nullptr;  // for copies that the host carries; made when first needed

  DeviceState() = default;
  DeviceState(const DeviceState&) = delete;
  DeviceState& operator=(const DeviceState&) = delete;
  ~DeviceState();
};

}  // namespace tenon::detail

namespace tenon::runtime {

// How a device is opened; `plugin` has complete tables and outlives the device through `owner`.
struct OpenDevice {
  const tn_plugin* plugin = nullptr;
  uint32_t ordinal = 0;
  std::string name;
  std::vector<std::string> emulated{};
  double reserve_fraction = 1;  // of the device's memory, for the pool
  detail::DeviceLog log{};
  std::shared_ptr<detail::RuntimeState> owner{};
};

// [any-thread; may block; may fail]
Result<std::shared_ptr<detail::DeviceState>> open_device(OpenDevice how);

// Whether copies may meet memory of another device at all. [any-thread; does not block; cannot fail]
bool several_devices() noexcept;
// The open device whose pool `memory` comes from; `first` is asked before the others. Null: not from a pool.
// [any-thread; may block; cannot fail]
std::shared_ptr<detail::DeviceState> home_of(const tn_memory* memory, detail::DeviceState& first);

}  // namespace tenon::runtime
