// SPDX-License-Identifier: Apache-2.0
// plugin.hpp: the author framework in one include.
//
// An author writes ordinary classes; TENON_PLUGIN makes every C table from them:
//
//   struct Plugin {
//     static constexpr tenon::author::Identity identity{.name = "mine", .vendor = "Me", .version = "0.1.0"};
//     using Device = …; using Memory = …; using Stream = …;
//     using Kernel = …; using Comm = …;                // each optional
//     explicit Plugin(tenon::author::Host host);       // or a default constructor; no side effects; may throw
//     Result<uint32_t> device_count();
//     Status describe(uint32_t ordinal, tn_device_info& out);
//     Result<std::unique_ptr<Device>> open(uint32_t ordinal, const tn_device_options& options);
//     const void* extension(std::string_view id);      // optional
//     Status quiesce();                                // optional
//     uint64_t features() const;                       // optional; instead of identity.features
//     static bool understands(std::string_view id);    // optional; extension links it reads
//   };
//   TENON_PLUGIN(Plugin)
//
// Inside a class, write `using Device = my::Device;` with its namespace. checks.hpp lists every method of
// every class.
// Invariant: one instance, made by the first tn_plugin_entry and ended by shutdown; at exit it is left alone.
#pragma once

#include <tenon/layout.h>
#include <tenon/author/aliases.hpp>
#include <tenon/author/checks.hpp>
#include <tenon/author/comm_table.hpp>
#include <tenon/author/device_table.hpp>
#include <tenon/author/kernel_table.hpp>
#include <tenon/author/stream_table.hpp>
#include <tenon/author/support.hpp>

namespace tenon::author {

// An ABI version as one number that compares.
constexpr uint32_t version_number(uint32_t major, uint32_t minor) noexcept { return major << 16 | minor; }

// The newest version that this SDK and the host both know; TN_VERSION names both ranges.
// [any-thread; does not block; may fail]
inline Result<uint32_t> negotiate(const tn_host& host, const char* plugin) {
  const auto words = [](uint32_t v) { return text(v >> 16, ".", v & 0xFFFF); };
  const uint32_t ours_min = version_number(TN_ABI_MAJOR, 0),
                 ours_max = version_number(TN_ABI_MAJOR, TN_ABI_MINOR);
  const uint32_t host_min = version_number(host.min_major, host.min_minor);
  const uint32_t host_max = version_number(host.header.major, host.header.minor);
  if (host_min <= ours_max && ours_min <= host_max) return std::min(ours_max, host_max);
  const char* remedy = host_max < ours_min ? ": use a newer host, or build the plugin with an older SDK"
                                           : ": rebuild the plugin with a newer SDK";
  return Status(TN_VERSION,
                text("plugin '", plugin, "' speaks ABI ", words(ours_min), " to ", words(ours_max),
                     ", this host offers ", words(host_min), " to ", words(host_max), remedy));
}

template <class Plugin>
struct PluginTable {
  using I = Instance<Plugin>;

  static const void* extension(const tn_plugin* plugin, const char* id) noexcept {
    const void* found = nullptr;
    static_cast<void>(guarded<Plugin>(nullptr, [&]() -> Status {
      TN_TRY(I::check(plugin));
      if constexpr (has::extension<Plugin>) {
        if (id != nullptr) found = I::plugin->extension(id);
      }
      return {};
    }));
    return id != nullptr ? found : nullptr;
  }

  static int32_t quiesce(const tn_plugin* plugin, tn_error* error) noexcept {
    return guarded<Plugin>(error, [&]() -> Status {
      TN_TRY(I::check(plugin));
      if constexpr (has::quiesce<Plugin>) return I::plugin->quiesce();
      return {};
    });
  }

  static int32_t shutdown(const tn_plugin* plugin, tn_error* error) noexcept {
    return farewell<Plugin>(error, [&]() -> Status {
      TN_TRY(I::check(plugin));
      if (const uint32_t open = I::devices; open != 0) {
        return Status(TN_BUSY, text("plugin '", Plugin::identity.name, "' still has ", open, " open ",
                                    open == 1 ? "device" : "devices", ": close before shutdown"));
      }
      delete std::exchange(I::plugin, nullptr);
      return {};
    });
  }

  static Plugin* make(const tn_host* host) {
    if constexpr (std::constructible_from<Plugin, Host>) {
      return new Plugin(Host(host, Plugin::identity.name));
    } else {
      return new Plugin();
    }
  }

  static tn_plugin describe(const Plugin& plugin, uint32_t version) {
    tn_plugin out{
        .header = {sizeof(tn_plugin), static_cast<uint16_t>(version >> 16), static_cast<uint16_t>(version)},
        .name = Plugin::identity.name,
        .vendor = Plugin::identity.vendor,
        .version = Plugin::identity.version,
        .features = Plugin::identity.features,
        .context = nullptr,
        .device = &DeviceTable<Plugin>::table,
        .stream = &StreamTable<Plugin>::table,
        .kernel = nullptr,
        .comm = nullptr,
        .extension = &extension,
        .quiesce = &quiesce,
        .shutdown = &shutdown,
    };
    if constexpr (has::features<Plugin>) out.features = plugin.features();
    if constexpr (HasKernels<Plugin>) out.kernel = &KernelTable<Plugin>::table;
    if constexpr (HasComms<Plugin>) out.comm = &CommTable<Plugin>::table;
    return out;
  }
};

// What tn_plugin_entry does. [one thread at a time; does not block; returns NULL]
template <class Plugin>
const tn_plugin* entry(const tn_host* host, tn_error* error) noexcept {
  if constexpr (complete<Plugin>()) {
    using I = Instance<Plugin>;
    const int32_t code = guarded<Plugin>(error, [&]() -> Status {
      constexpr size_t least = offsetof(tn_host, reserved);
      if (host == nullptr || host->header.size < least)
        return Status(TN_INVALID, "host is NULL or its size was not set");
      const uint32_t version = TN_TRY(negotiate(*host, Plugin::identity.name));
      if (I::plugin != nullptr) return {};
      Plugin* made = PluginTable<Plugin>::make(host);
      I::descriptor = PluginTable<Plugin>::describe(*made, version);
      I::features = I::descriptor.features;
      I::plugin = made;
      watch_forks();
      return {};
    });
    return code == TN_OK ? &I::descriptor : nullptr;
  } else {
    return nullptr;
  }
}

}  // namespace tenon::author

// Defines the one symbol a plugin exports. Write it once, outside every namespace.
#define TENON_PLUGIN(PluginClass)                                                               \
  extern "C" TN_EXPORT const tn_plugin* tn_plugin_entry(const tn_host* host, tn_error* error) { \
    return ::tenon::author::entry<PluginClass>(host, error);                                    \
  }
