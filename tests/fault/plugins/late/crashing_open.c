/* SPDX-License-Identifier: Apache-2.0 */
/* crashing_open.c: nothing is wrong until its device is opened, which crashes. */
#include "../specimens/minimal.h"

static int32_t open_device(const tn_plugin* plugin, uint32_t ordinal, const tn_device_options* options,
                           tn_device** device, tn_error* error) {
  (void)plugin, (void)ordinal, (void)options, (void)device, (void)error;
  minimal_crash();
  return TN_OK;
}

TN_EXPORT const tn_plugin* tn_plugin_entry(const tn_host* host, tn_error* error) {
  (void)host, (void)error;
  minimal_device_api.open = open_device;
  return minimal_called("crashing_open");
}
