// SPDX-License-Identifier: Apache-2.0
// wrong_cpu.hpp: mistakes over the cpu plugin, for what the honest one does not have.
//
// It is opened where this tree has built it.
// Invariant: everything that is not exchanged is the cpu plugin's, handles included.
#pragma once

#include "wrong.hpp"

#include <dlfcn.h>

#include <cstring>

namespace wrong {

inline int32_t fail(tn_error* error, int32_t code, const char* message) {
  if (error == nullptr) return code;
  error->code = code;
  std::strcpy(error->domain, "wrong");
  std::strcpy(error->message, message);
  return code;
}

inline const tn_plugin* enter_other(const char* file, const tn_host* host, tn_error* error,
                                    void (*spoil)(Tables&)) {
  void* const library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  void* const entry = library != nullptr ? dlsym(library, TN_PLUGIN_ENTRY_NAME) : nullptr;
  if (entry == nullptr) {
    fail(error, TN_NOT_FOUND, "the plugin that this one spoils is not where this tree builds it");
    return nullptr;
  }
  return spoilt(reinterpret_cast<tn_plugin_entry_fn>(entry)(host, error), spoil);
}

#ifdef TENON_WRONG_CPU
inline const tn_plugin* enter_cpu(const tn_host* host, tn_error* error, void (*spoil)(Tables&)) {
  return enter_other(TENON_WRONG_CPU, host, error, spoil);
}
#endif

}  // namespace wrong

// WRONG_CPU(tables) { tables.kernel.compile = […](…) { … wrong::right().kernel.compile(…) … }; }
#define WRONG_CPU(tables)                                                                       \
  static void wrong_spoil_cpu(::wrong::Tables& tables);                                         \
  extern "C" TN_EXPORT const tn_plugin* tn_plugin_entry(const tn_host* host, tn_error* error) { \
    return ::wrong::enter_cpu(host, error, &wrong_spoil_cpu);                                   \
  }                                                                                             \
  static void wrong_spoil_cpu([[maybe_unused]] ::wrong::Tables& tables)
