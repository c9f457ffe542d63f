/* SPDX-License-Identifier: Apache-2.0 */
/* unresolved_symbol.c: calls a function that no library has, as after an update of the one it was linked against. */
#include "minimal.h"

int tenon_test_nowhere(void);

TN_EXPORT const tn_plugin* tn_plugin_entry(const tn_host* host, tn_error* error) {
  (void)host, (void)error;
  return tenon_test_nowhere() == 0 ? minimal_called("unresolved_symbol") : NULL;
}
