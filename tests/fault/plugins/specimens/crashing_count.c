/* SPDX-License-Identifier: Apache-2.0 */
/* crashing_count.c: crashes at the first question about its devices. */
#include "minimal.h"

static int32_t count(const tn_plugin* plugin, uint32_t* number, tn_error* error) {
  (void)plugin, (void)number, (void)error;
  minimal_crash();
  return TN_OK;
}

TN_EXPORT const tn_plugin* tn_plugin_entry(const tn_host* host, tn_error* error) {
  (void)host, (void)error;
  minimal_device_api.count = count;
  return minimal_called("crashing_count");
}
