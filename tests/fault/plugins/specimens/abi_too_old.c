/* SPDX-License-Identifier: Apache-2.0 */
/* abi_too_old.c: answers with a version from before the first. */
#include "minimal.h"

TN_EXPORT const tn_plugin* tn_plugin_entry(const tn_host* host, tn_error* error) {
  (void)host, (void)error;
  minimal_plugin.header.major = 0;
  minimal_plugin.header.minor = 9;
  return minimal_called("abi_too_old");
}
