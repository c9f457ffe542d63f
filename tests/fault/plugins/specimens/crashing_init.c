/* SPDX-License-Identifier: Apache-2.0 */
/* crashing_init.c: crashes before anybody has called it. */
#include "minimal.h"

__attribute__((constructor)) static void start(void) { minimal_crash(); }

TN_EXPORT const tn_plugin* tn_plugin_entry(const tn_host* host, tn_error* error) {
  (void)host, (void)error;
  return minimal_called("crashing_init");
}
