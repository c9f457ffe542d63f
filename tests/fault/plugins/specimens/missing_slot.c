/* SPDX-License-Identifier: Apache-2.0 */
/* missing_slot.c: has no function to allocate memory. */
#include "minimal.h"

TN_EXPORT const tn_plugin* tn_plugin_entry(const tn_host* host, tn_error* error) {
  (void)host, (void)error;
  minimal_device_api.alloc = NULL;
  return minimal_called("missing_slot");
}
