// SPDX-License-Identifier: Apache-2.0
// anyone_may_write.cpp: the library's file is world-writable; the build makes it so.
#include "wrong.hpp"

extern "C" TN_EXPORT const tn_plugin* tn_plugin_entry(const tn_host* host, tn_error* error) {
  return honest_entry(host, error);
}
