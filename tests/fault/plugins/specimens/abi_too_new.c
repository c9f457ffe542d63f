/* SPDX-License-Identifier: Apache-2.0 */
/* abi_too_new.c: answers with a major version that no host asked for. */
#include "minimal.h"

TN_EXPORT const tn_plugin* tn_plugin_entry(const tn_host* host, tn_error* error) {
  (void)host, (void)error;
  minimal_plugin.header.major = TN_ABI_MAJOR + 1;
  return minimal_called("abi_too_new");
}
