// SPDX-License-Identifier: Apache-2.0
// device.cpp: how a device is opened and closed, and the thin gates of Device.
#include "runtime/device_state.hpp"
#include "runtime/runtime_state.hpp"
#include "runtime/timeline.hpp"

#include <algorithm>
#include <atomic>
#include <bit>

namespace tenon::runtime {
namespace {

struct Devices {
  std::mutex mutex;
  std::vector<detail::DeviceState*> open;
  std::atomic<size_t> count{0};
};
Devices& all_devices() {
  static Devices& devices = *new Devices;  // outlives every device, also those that static objects keep
  return devices;
}

bool owns(const detail::DeviceState& device, const tn_memory* memory) {
  return std::any_of(device.pools.begin(), device.pools.end(),
                     [&](const auto& pool) { return pool->owns(memory); });
}

// Bytes the pool may reserve of the device's own memory.
uint64_t limit_of(const detail::DeviceState& device, double fraction) {
  if (fraction >= 1) return UINT64_MAX;
  tn_memory_info info{.size = sizeof(tn_memory_info)};
  const bool told = device.plugin->device->memory_info(device.handle, &info, nullptr) == TN_OK;
  const uint64_t total = told && info.total_bytes != 0 ? info.total_bytes : device.info.memory_bytes;
  return total == 0 ? UINT64_MAX : static_cast<uint64_t>(static_cast<double>(total) * fraction);
}

void furnish(detail::DeviceState& device, double reserve_fraction) {
  const uint64_t granule = std::bit_ceil(std::max<uint64_t>(device.limits.alignment, TN_MEMORY_ALIGNMENT));
  for (uint32_t kind = 0; kind < device.pools.size(); ++kind)
    device.pools[kind] = std::make_unique<Pool>(
        Pool::Source{.plugin = device.plugin,
                     .device = device.handle,
                     .kind = kind,
                     .name = device.name,
                     .granule = granule,
                     .limit = kind == TN_MEMORY_HOST ? UINT64_MAX : limit_of(device, reserve_fraction)});
  device.kernels = std::make_unique<KernelCache>(device.plugin, device.handle);
}

}  // namespace

bool several_devices() noexcept { return all_devices().count.load(std::memory_order_acquire) > 1; }

std::shared_ptr<detail::DeviceState> home_of(const tn_memory* memory, detail::DeviceState& first) {
  if (owns(first, memory)) return first.shared_from_this();
  Devices& devices = all_devices();
  const std::lock_guard lock(devices.mutex);
  for (detail::DeviceState* device : devices.open)
    if (device != &first && owns(*device, memory)) return device->weak_from_this().lock();
  return nullptr;
}

Result<std::shared_ptr<detail::DeviceState>> open_device(OpenDevice how) {
  auto device = std::make_shared<detail::DeviceState>();
  device->plugin = how.plugin;
  device->name = std::move(how.name);
  device->emulated = std::move(how.emulated);
  device->owner = std::move(how.owner);
  device->log = how.log ? std::move(how.log) : [](LogLevel, const std::string&) {};
  const tn_device_api& api = *how.plugin->device;
  tn_error error = no_error();
  device->info.size = sizeof(tn_device_info);
  TN_TRY(status_of(api.info(how.plugin, how.ordinal, &device->info, &error), error));
  const Host::Opening own_options(device->owner != nullptr ? device->owner->host : nullptr);
  const tn_device_options options{.size = sizeof(tn_device_options), .reserved = 0, .next = nullptr};
  TN_TRY(status_of(api.open(how.plugin, how.ordinal, &options, &device->handle, &error), error));
  device->limits.size = sizeof(tn_device_limits);
  TN_TRY(status_of(api.limits(device->handle, &device->limits, &error), error));
  furnish(*device, how.reserve_fraction);
  if (device->owner != nullptr && device->owner->host != nullptr) {
    for (const std::string& remark : device->owner->host->misspelt(how.plugin->name))
      device->log(LogLevel::warn, remark);
  }
  Devices& devices = all_devices();
  const std::lock_guard lock(devices.mutex);
  devices.open.push_back(device.get());
  devices.count.store(devices.open.size(), std::memory_order_release);
  return device;
}

}  // namespace tenon::runtime

namespace tenon::detail {

DeviceState::~DeviceState() {
  if (handle == nullptr) return;
  {
    runtime::Devices& devices = runtime::all_devices();
    const std::lock_guard lock(devices.mutex);
    std::erase(devices.open, this);
    devices.count.store(devices.open.size(), std::memory_order_release);
  }
  kernels.reset();
  if (staging != nullptr) plugin->stream->destroy(staging, TN_DESTROY_COMPLETE, nullptr);
  for (auto& pool : pools) pool.reset();
  tn_error error = no_error();
  const Status closed = status_of(plugin->device->close(handle, &error), error);
  if (!closed.ok()) log(LogLevel::warn, "device '" + name + "' did not close: " + closed.error().message);
}

}  // namespace tenon::detail

namespace tenon {

const std::string& Device::name() const noexcept { return state_->name; }
const tn_device_info& Device::info() const noexcept { return state_->info; }
const tn_device_limits& Device::limits() const noexcept { return state_->limits; }
const std::vector<std::string>& Device::emulated() const noexcept { return state_->emulated; }
tn_device* Device::handle() const noexcept { return state_->handle; }
const tn_plugin& Device::plugin() const noexcept { return *state_->plugin; }

Result<tn_memory_info> Device::memory_info() const {
  tn_memory_info info{.size = sizeof(tn_memory_info)};
  tn_error error = no_error();
  TN_TRY(status_of(state_->plugin->device->memory_info(state_->handle, &info, &error), error));
  return info;
}

Result<Stream> Device::stream(StreamOptions options) {
  return runtime::open_stream(state_, std::move(options));
}

Result<Buffer> Device::allocate(Stream& stream, uint64_t bytes, MemoryKind kind) {
  runtime::Timeline& line = runtime::timeline_of(stream);
  const auto index = static_cast<uint32_t>(kind);
  if (line.device != state_ || index >= state_->pools.size()) [[unlikely]]
    return Status(TN_INVALID, "a buffer of device '" + state_->name + "' in the order of stream '" +
                                  line.name + "' of device '" + line.device->name +
                                  "': use a stream of the device, and a known kind");
  if (bytes == 0) return Buffer(nullptr, 0);
  runtime::Pool& pool = *state_->pools[index];
  runtime::Cache* cache = line.caches[index].load(std::memory_order_acquire);
  if (cache == nullptr) [[unlikely]]
    cache = &pool.cache_of(line);
  runtime::Block* block = bytes <= runtime::largest_request ? cache->take(bytes) : nullptr;
  if (block == nullptr) [[unlikely]]
    block = TN_TRY(pool.allocate(*cache, bytes));
  if (const auto* notes = pool.notes()) [[unlikely]]
    notes->acquired(notes->context, block->memory, block->offset, bytes);
  return Buffer(block, bytes);
}

PoolStats Device::pool_stats(MemoryKind kind) const {
  return state_->pools[static_cast<uint32_t>(kind)]->stats();
}

Status Device::trim(uint64_t keep_bytes) {
  for (auto& pool : state_->pools) keep_bytes -= std::min(keep_bytes, pool->trim(keep_bytes));
  return {};
}

}  // namespace tenon
