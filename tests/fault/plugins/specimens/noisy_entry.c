/* SPDX-License-Identifier: Apache-2.0 */
/* noisy_entry.c: greets the user on the program's own standard output. */
#include "minimal.h"

#include <stdio.h>

TN_EXPORT const tn_plugin* tn_plugin_entry(const tn_host* host, tn_error* error) {
  (void)host, (void)error;
  printf("Thank you for choosing Noisy!\n");
  return minimal_called("noisy_entry");
}
