// SPDX-License-Identifier: Apache-2.0
// instance.hpp: the one instance of a plugin, from the first tn_plugin_entry to shutdown.
//
// Invariant: nothing here runs at load or at exit, so opening has no side effect and exiting without shutdown
// is legal.
#pragma once

#include <tenon/plugin.h>
#include <tenon/author/host.hpp>

#include <atomic>

namespace tenon::author {

// Who a plugin is. `static constexpr Identity identity{.name = "cpu", .vendor = "Tenon", .version =
// "0.1.0"};`
struct Identity {
  const char* name;  // equals the manifest's and the file's: tenon-NAME.so; lower-case letters, digits and _
  const char* vendor;
  const char* version;    // SemVer
  uint64_t features = 0;  // TN_FEATURE_…
};

// Whether `name` may name a plugin: it has to fit a file name and tn_error.domain. Used at compile time.
constexpr bool good_name(std::string_view name) {
  if (name.empty() || name.size() >= sizeof tn_error::domain || name[0] < 'a' || name[0] > 'z') return false;
  for (const char c : name) {
    if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_')) return false;
  }
  return true;
}

template <class Plugin>
struct Instance {
  static inline Plugin* plugin = nullptr;  // owned; ended by shutdown alone
  static inline tn_plugin descriptor{};
  static inline uint64_t features = 0;
  static inline std::atomic<uint32_t> devices{0};

  // TN_INVALID for a descriptor that is not this plugin's, or one that outlived shutdown.
  static Status check(const tn_plugin* handle) {
    if (handle == nullptr) return Status(TN_INVALID, "plugin is NULL");
    if (handle != &descriptor)
      return Status(TN_INVALID, "the descriptor is another plugin's: pass the one its own entry gave");
    if (plugin == nullptr) return Status(TN_INVALID, "the plugin was shut down: call tn_plugin_entry again");
    return {};
  }
};

}  // namespace tenon::author
