// SPDX-License-Identifier: Apache-2.0
// device_table.hpp: tn_device_api made from the author's Plugin, Device and Memory.
//
// Invariant: a device is closed only when nothing of it lives, and every allocation asks the author for an
// alignment that is a power of two and at least what the device promised.
#pragma once

#include <tenon/author/concepts.hpp>
#include <tenon/author/links.hpp>
#include <tenon/author/span.hpp>

#include <algorithm>
#include <bit>

namespace tenon::author {

template <class Plugin>
struct DeviceTable {
  using Device = typename Plugin::Device;
  using Memory = typename Plugin::Memory;
  using H = Handles<Plugin>;
  using I = Instance<Plugin>;

  static int32_t count(const tn_plugin* plugin, uint32_t* out, tn_error* error) noexcept {
    if (out != nullptr) *out = 0;
    return guarded<Plugin>(error, [&]() -> Status {
      TN_TRY(I::check(plugin));
      if (out == nullptr) return is_null("count");
      *out = TN_TRY(I::plugin->device_count());
      return {};
    });
  }

  static int32_t info(const tn_plugin* plugin, uint32_t ordinal, tn_device_info* out,
                      tn_error* error) noexcept {
    return guarded<Plugin>(error, [&]() -> Status {
      TN_TRY(I::check(plugin));
      TN_TRY(check_out(out, "tn_device_info"));
      TN_TRY(check_ordinal(ordinal));
      auto full = outgoing<tn_device_info>();
      full.numa_node = -1;
      TN_TRY(I::plugin->describe(ordinal, full));
      write_out(full, out);
      return {};
    });
  }

  static int32_t open(const tn_plugin* plugin, uint32_t ordinal, const tn_device_options* options,
                      tn_device** out, tn_error* error) noexcept {
    if (out != nullptr) *out = nullptr;
    return guarded<Plugin>(error, [&]() -> Status {
      TN_TRY(I::check(plugin));
      if (out == nullptr) return is_null("device");
      TN_TRY(check_ordinal(ordinal));
      const Incoming<tn_device_options> wanted(options);
      TN_TRY(check_links<Plugin>(wanted->next, "tn_device_options"));
      auto device = TN_TRY(I::plugin->open(ordinal, *wanted));
      if (device == nullptr) return Status(TN_INTERNAL, "Plugin::open succeeded without a device");
      const auto limits = TN_TRY(stated_limits(*device));
      Device* object = device.get();
      *out = reinterpret_cast<tn_device*>(new typename H::Device{
          .object = object, .ordinal = ordinal, .limits = limits, .owner = std::move(device)});
      I::devices.fetch_add(1);
      return {};
    });
  }

  static int32_t close(tn_device* device, tn_error* error) noexcept {
    return farewell<Plugin>(error, [&]() -> Status {
      if (device == nullptr) return is_null("device");
      auto& handle = H::of(device);
      if (handle.children.any()) {
        return Status(TN_BUSY, text("device ", handle.ordinal, " still has ", handle.children.words(),
                                    ": destroy them before closing it"));
      }
      delete &handle;
      I::devices.fetch_sub(1);
      return {};
    });
  }

  static int32_t limits(tn_device* device, tn_device_limits* out, tn_error* error) noexcept {
    return guarded<Plugin>(error, [&]() -> Status {
      if (device == nullptr) return is_null("device");
      TN_TRY(check_out(out, "tn_device_limits"));
      write_out(H::of(device).limits, out);
      return {};
    });
  }

  static int32_t memory_info(tn_device* device, tn_memory_info* out, tn_error* error) noexcept {
    return guarded<Plugin>(error, [&]() -> Status {
      if (device == nullptr) return is_null("device");
      TN_TRY(check_out(out, "tn_memory_info"));
      auto full = outgoing<tn_memory_info>();
      TN_TRY(H::of(device).object->memory_info(full));
      write_out(full, out);
      return {};
    });
  }

  static int32_t alloc(tn_device* device, uint32_t kind, uint64_t bytes, uint64_t alignment, tn_memory** out,
                       tn_error* error) noexcept {
    if (out != nullptr) *out = nullptr;
    return guarded<Plugin>(error, [&]() -> Status {
      if (device == nullptr) return is_null("device");
      if (out == nullptr) return is_null("memory");
      auto& parent = H::of(device);
      TN_TRY(check_request(parent, kind, bytes, alignment));
      auto memory =
          TN_TRY(parent.object->allocate(kind, bytes, std::max(alignment, parent.limits.alignment)));
      *out = TN_TRY(wrap_memory(parent, std::move(memory)));
      return {};
    });
  }

  static int32_t free(tn_memory* memory, tn_error* error) noexcept {
    return farewell<Plugin>(error, [&]() -> Status {
      if (memory == nullptr) return is_null("memory");
      const Leaving leaving{H::of(memory).device->children.memories};
      delete &H::of(memory);
      return {};
    });
  }

  static int32_t address(tn_memory* memory, uint64_t* out, tn_error* error) noexcept {
    if (out != nullptr) *out = 0;
    return guarded<Plugin>(error, [&]() -> Status {
      if (memory == nullptr) return is_null("memory");
      if (out == nullptr) return is_null("address");
      *out = TN_TRY(H::of(memory).object->address());
      return {};
    });
  }

  static int32_t peer(tn_device* a, tn_device* b, uint32_t* out, tn_error* error) noexcept {
    if (out != nullptr) *out = 0;
    return guarded<Plugin>(error, [&]() -> Status {
      if (a == nullptr || b == nullptr) return is_null("device");
      if (out == nullptr) return is_null("direct");
      *out = a == b || TN_TRY(H::of(a).object->peer(*H::of(b).object))
      ? 1 : 0;
      return {};
    });
  }

  // Gives an author's memory a handle; also for memory that an extension imports.
  static Result<tn_memory*> wrap_memory(typename H::Device& parent, std::unique_ptr<Memory> memory) {
    if (memory == nullptr) return Status(TN_INTERNAL, "Device::allocate succeeded without a memory");
    Memory* object = memory.get();
    auto* handle = new typename H::Memory{
        .object = object, .bytes = object->bytes(), .device = &parent, .owner = std::move(memory)};
    parent.children.memories.fetch_add(1);
    return reinterpret_cast<tn_memory*>(handle);
  }

  static constexpr auto address_slot() -> decltype(tn_device_api::address) {
    if constexpr (has::address<Memory>) return &address;
    return nullptr;
  }
  static constexpr auto peer_slot() -> decltype(tn_device_api::peer) {
    if constexpr (has::peer<Device>) return &peer;
    return nullptr;
  }

  static constexpr tn_device_api table{
      .header = {sizeof(tn_device_api), TN_ABI_MAJOR, TN_ABI_MINOR},
      .count = &count,
      .info = &info,
      .open = &open,
      .close = &close,
      .limits = &limits,
      .memory_info = &memory_info,
      .alloc = &alloc,
      .free = &free,
      .address = address_slot(),
      .peer = peer_slot(),
  };

 private:
  static Status check_ordinal(uint32_t ordinal) {
    const uint32_t count = TN_TRY(I::plugin->device_count());
    if (ordinal < count) return {};
    return Status(TN_NOT_FOUND, text("device ", ordinal, " does not exist: plugin '", Plugin::identity.name,
                                     "' has ", count, count == 1 ? " device" : " devices"));
  }

  // The limits as the author gives them, refused when they break the contract: better at open than in the
  // field.
  static Result<tn_device_limits> stated_limits(const Device& device) {
    auto limits = outgoing<tn_device_limits>();
    limits.alignment = TN_MEMORY_ALIGNMENT;
    limits.priorities = 1;
    device.limits(limits);
    limits.size = sizeof limits;
    if (limits.alignment < TN_MEMORY_ALIGNMENT || !std::has_single_bit(limits.alignment)) {
      return Status(TN_INTERNAL, text("Device::limits states alignment ", limits.alignment,
                                      "; it must be a power of two and at least ", TN_MEMORY_ALIGNMENT));
    }
    if (limits.priorities == 0)
      return Status(TN_INTERNAL, "Device::limits states 0 priorities; there is at least 1");
    return limits;
  }

  static Status check_request(const typename H::Device& device, uint32_t kind, uint64_t bytes,
                              uint64_t alignment) {
    if (kind > TN_MEMORY_MANAGED)
      return Status(TN_UNSUPPORTED, text("memory kind ", kind, " is not known here"));
    if (alignment != 0 && !std::has_single_bit(alignment)) {
      return Status(TN_INVALID, text("alignment ", alignment, " is no power of two"));
    }
    const uint64_t most = device.limits.max_alloc_bytes;
    if (most == 0 || bytes <= most) return {};
    return Status(TN_NO_MEMORY, text("asked for ", bytes, " bytes, and one memory of device ", device.ordinal,
                                     " holds at most ", most));
  }
};

}  // namespace tenon::author
