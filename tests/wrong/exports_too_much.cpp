// SPDX-License-Identifier: Apache-2.0
// exports_too_much.cpp: a second symbol is visible; this one is linked without the version script.
#include "wrong.hpp"

extern "C" TN_EXPORT int honest_helper() { return 1; }

extern "C" TN_EXPORT const tn_plugin* tn_plugin_entry(const tn_host* host, tn_error* error) {
  return honest_entry(host, error);
}
