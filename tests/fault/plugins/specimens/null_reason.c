/* SPDX-License-Identifier: Apache-2.0 */
/* null_reason.c: refuses politely. */
#include "minimal.h"

TN_EXPORT const tn_plugin* tn_plugin_entry(const tn_host* host, tn_error* error) {
  (void)host;
  minimal_refuse(error, "libaccel.so.3 is version 3.1, this plugin needs 3.4: update the driver");
  return NULL;
}
