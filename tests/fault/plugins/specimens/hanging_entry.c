/* SPDX-License-Identifier: Apache-2.0 */
/* hanging_entry.c: never comes back. */
#include "minimal.h"

#include <unistd.h>

TN_EXPORT const tn_plugin* tn_plugin_entry(const tn_host* host, tn_error* error) {
  (void)host, (void)error;
  static volatile int forever = 1;
  while (forever) pause();
  return minimal_called("hanging_entry");
}
