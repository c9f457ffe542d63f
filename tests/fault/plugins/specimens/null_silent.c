/* SPDX-License-Identifier: Apache-2.0 */
/* null_silent.c: refuses without a word. */
#include "minimal.h"

TN_EXPORT const tn_plugin* tn_plugin_entry(const tn_host* host, tn_error* error) {
  (void)host, (void)error;
  return NULL;
}
