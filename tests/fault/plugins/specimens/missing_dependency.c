/* SPDX-License-Identifier: Apache-2.0 */
/* missing_dependency.c: needs a library that was there when it was linked. */
#include "minimal.h"

int gone_function(void);

TN_EXPORT const tn_plugin* tn_plugin_entry(const tn_host* host, tn_error* error) {
  (void)host, (void)error;
  return gone_function() == 0 ? minimal_called("missing_dependency") : NULL;
}
