/* SPDX-License-Identifier: Apache-2.0 */
/* absurd_size.c: claims a table of four gigabytes. */
#include "minimal.h"

TN_EXPORT const tn_plugin* tn_plugin_entry(const tn_host* host, tn_error* error) {
  (void)host, (void)error;
  minimal_stream_api.header.size = 0xFFFFFFF0u;
  return minimal_called("absurd_size");
}
