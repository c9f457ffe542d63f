/* SPDX-License-Identifier: Apache-2.0 */
/* hanging_open.c: nothing is wrong until its device is opened, which never comes back. */
#include "../specimens/minimal.h"

#include <unistd.h>

static int32_t open_device(const tn_plugin* plugin, uint32_t ordinal, const tn_device_options* options,
                           tn_device** device, tn_error* error) {
  (void)plugin, (void)ordinal, (void)options, (void)device, (void)error;
  static volatile int forever = 1;
  while (forever) pause();
  return TN_OK;
}

TN_EXPORT const tn_plugin* tn_plugin_entry(const tn_host* host, tn_error* error) {
  (void)host, (void)error;
  minimal_device_api.open = open_device;
  return minimal_called("hanging_open");
}
