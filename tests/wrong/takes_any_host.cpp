// SPDX-License-Identifier: Apache-2.0
// takes_any_host.cpp: the entry does not look at the host's range of versions.
#include "wrong.hpp"

extern "C" TN_EXPORT const tn_plugin* tn_plugin_entry(const tn_host* host, tn_error* error) {
  static tn_host accepted{};  // as if the host had said what the plugin wants to hear
  accepted.header = {.size = offsetof(tn_host, log), .major = TN_ABI_MAJOR, .minor = TN_ABI_MINOR};
  accepted.min_major = TN_ABI_MAJOR;
  accepted.name = host->name;
  return honest_entry(&accepted, error);
}
