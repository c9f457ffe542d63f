/* SPDX-License-Identifier: Apache-2.0 */
/* exiting_entry.c: ends the whole process, and calls that success. */
#include "minimal.h"

#include <stdlib.h>

TN_EXPORT const tn_plugin* tn_plugin_entry(const tn_host* host, tn_error* error) {
  (void)host, (void)error;
  exit(0);
}
