// SPDX-License-Identifier: Apache-2.0
// one_per_process.cpp: the entry leaves a mark in the environment, and refuses where another plugin has left it.
#include "wrong.hpp"

#include <cstdlib>
#include <cstring>

extern "C" TN_EXPORT const tn_plugin* tn_plugin_entry(const tn_host* host, tn_error* error) {
  static bool ours = false;
  if (!ours && std::getenv("TENON_HONEST_IS_HERE") != nullptr) {
    if (error != nullptr) {
      error->code = TN_BUSY;
      std::strcpy(error->domain, "honest");
      std::strcpy(error->message, "one plugin of this kind is in the process already: end it");
    }
    return nullptr;
  }
  ours = setenv("TENON_HONEST_IS_HERE", "1", 1) == 0;
  return honest_entry(host, error);
}
