/* SPDX-License-Identifier: Apache-2.0 */
/* missing_table.c: has no streams. */
#include "minimal.h"

TN_EXPORT const tn_plugin* tn_plugin_entry(const tn_host* host, tn_error* error) {
  (void)host, (void)error;
  minimal_plugin.stream = NULL;
  return minimal_called("missing_table");
}
