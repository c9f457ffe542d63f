/* SPDX-License-Identifier: Apache-2.0 */
/* older_plugin.c: what a plugin whose SDK had fewer functions looks like to a host of today.
 *
 * Each table ends before its first trailing optional slot, and lies at the very end of a page whose neighbour
 * is closed: a host that reads past a table's size dies at once. The work is the frozen plugin's.
 * Invariant: nothing behind a table's size is ever readable.
 */
#define tn_plugin_entry frozen_entry
#include "frozen_v1_plugin.c"
#undef tn_plugin_entry

#include <sys/mman.h>
#include <unistd.h>

/* Copies the first `known` bytes of a table to the end of a readable page; its header says so. */
static void* at_the_edge(const void* table, uint32_t known) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  char* pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED || mprotect(pages + page, page, PROT_NONE) != 0) return NULL;
  void* place = pages + page - known;
  memcpy(place, table, known);
  memcpy(place, &known, sizeof known); /* a table begins with its size */
  return place;
}

static const tn_plugin* shortened(void) {
  tn_plugin descriptor = plugin_v1;
  descriptor.name = "older";
  descriptor.device = at_the_edge(&device_api, offsetof(tn_device_api, address));
  descriptor.stream = at_the_edge(&stream_api, offsetof(tn_stream_api, timestamp));
  descriptor.kernel = at_the_edge(&kernel_api, offsetof(tn_kernel_api, save));
  if (descriptor.device == NULL || descriptor.stream == NULL || descriptor.kernel == NULL) return NULL;
  return at_the_edge(&descriptor, sizeof descriptor);
}

TN_EXPORT const tn_plugin* tn_plugin_entry(const tn_host* host, tn_error* error) {
  static const tn_plugin* made;
  if (frozen_entry(host, error) == NULL) return NULL;
  if (made == NULL) made = shortened();
  if (made == NULL) fail(error, TN_NO_MEMORY, "no pages for the tables");
  return made;
}
