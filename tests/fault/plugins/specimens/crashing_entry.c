/* SPDX-License-Identifier: Apache-2.0 */
/* crashing_entry.c: writes to nowhere when it is asked for its tables. */
#include "minimal.h"

TN_EXPORT const tn_plugin* tn_plugin_entry(const tn_host* host, tn_error* error) {
  (void)host, (void)error;
  minimal_crash();
  return minimal_called("crashing_entry");
}
