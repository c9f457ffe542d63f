/* SPDX-License-Identifier: Apache-2.0 */
/* newer_plugin.c: what a plugin of a later minor version looks like to a host of today.
 *
 * Its tables and its descriptor are longer than this SDK knows, it takes the host's newest minor version, and
 * it has feature bits that nobody has heard of. The work is the frozen plugin's.
 * Invariant: a host that reads only what it knows sees an ordinary plugin.
 */
#define tn_plugin_entry frozen_entry
#include "frozen_v1_plugin.c"
#undef tn_plugin_entry

#define POISON ((void (*)(void))(uintptr_t)0xDEAD)
typedef void (*unknown_function)(void);

/* The table of today, then functions of tomorrow that crash whoever calls them. */
static struct {
  tn_device_api known;
  unknown_function later[3];
} device_later;
static struct {
  tn_stream_api known;
  unknown_function later[5];
} stream_later;
static struct {
  tn_kernel_api known;
  unknown_function later[2];
} kernel_later;
static struct {
  tn_plugin known;
  const void* tables[2];
  unknown_function later[2];
} plugin_later;

static void extend(void) {
  device_later.known = device_api;
  stream_later.known = stream_api;
  kernel_later.known = kernel_api;
  plugin_later.known = plugin_v1;
  device_later.known.header.size = sizeof device_later;
  stream_later.known.header.size = sizeof stream_later;
  kernel_later.known.header.size = sizeof kernel_later;
  plugin_later.known.header.size = sizeof plugin_later;
  for (int i = 0; i < 3; ++i) device_later.later[i] = POISON;
  for (int i = 0; i < 5; ++i) stream_later.later[i] = POISON;
  for (int i = 0; i < 2; ++i) kernel_later.later[i] = plugin_later.later[i] = POISON;
  for (int i = 0; i < 2; ++i) plugin_later.tables[i] = &plugin_later;
  plugin_later.known.name = "newer";
  plugin_later.known.features |= 1ull << 40 | 1ull << 63;
  plugin_later.known.device = &device_later.known;
  plugin_later.known.stream = &stream_later.known;
  plugin_later.known.kernel = &kernel_later.known;
}

TN_EXPORT const tn_plugin* tn_plugin_entry(const tn_host* host, tn_error* error) {
  if (frozen_entry(host, error) == NULL) return NULL;
  extend();
  /* One minor version ahead of this SDK, where the host has it to give. */
  plugin_later.known.header.minor =
      host->header.major > 1 || host->header.minor > TN_ABI_MINOR ? TN_ABI_MINOR + 1 : host->header.minor;
  return &plugin_later.known;
}
