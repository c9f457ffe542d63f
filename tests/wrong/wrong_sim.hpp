// SPDX-License-Identifier: Apache-2.0
// wrong_sim.hpp: mistakes over the simulated device under profile `ascend`, which has a private layout.
//
//   #include "wrong_sim.hpp"
//   WRONG_SIM(tables) { tables.kernel.layout_bytes = […](…) { … wrong::right().kernel.layout_bytes(…) … }; }
//
// Invariant: everything that is not exchanged is the sim plugin's, handles included.
#pragma once

#include "wrong_cpu.hpp"

namespace wrong {

inline const tn_plugin* enter_ascend(const tn_host* host, tn_error* error, void (*spoil)(Tables&)) {
  static tn_host under_profile;
  static const tn_host* asking;
  if (host != nullptr) {
    asking = host;
    under_profile = *host;
    under_profile.option = [](void* context, const char* plugin, const char* key) {
      const char* const given = asking->option(context, plugin, key);
      return given == nullptr && std::strcmp(key, "profile") == 0 ? "ascend" : given;
    };
  }
  return enter_other(TENON_WRONG_SIM, host != nullptr ? &under_profile : nullptr, error, spoil);
}

}  // namespace wrong

#define WRONG_SIM(tables)                                                                       \
  static void wrong_spoil_sim(::wrong::Tables& tables);                                         \
  extern "C" TN_EXPORT const tn_plugin* tn_plugin_entry(const tn_host* host, tn_error* error) { \
    return ::wrong::enter_ascend(host, error, &wrong_spoil_sim);                                \
  }                                                                                             \
  static void wrong_spoil_sim([[maybe_unused]] ::wrong::Tables& tables)
