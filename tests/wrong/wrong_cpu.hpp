// SPDX-License-Identifier: Apache-2.0
// wrong_cpu.hpp: mistakes over the cpu plugin, for what the honest one does not have.
//
// The cpu plugin is opened where this tree has built it.
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

inline const tn_plugin* enter_cpu(const tn_host* host, tn_error* error, void (*spoil)(Tables&)) {
  void* const library = dlopen(TENON_WRONG_CPU, RTLD_NOW | RTLD_LOCAL);
  void* const entry = library != nullptr ? dlsym(library, TN_PLUGIN_ENTRY_NAME) : nullptr;
  if (entry == nullptr) {
    fail(error, TN_NOT_FOUND, "the cpu plugin is not where this tree builds it: " TENON_WRONG_CPU);
    return nullptr;
  }
  return spoilt(reinterpret_cast<tn_plugin_entry_fn>(entry)(host, error), spoil);
}

}  // namespace wrong
