/* SPDX-License-Identifier: Apache-2.0 */
/* no_symbol.c: its entry is hidden from the linker, as happens to those who forget TN_EXPORT. */
__attribute__((visibility("hidden"))) const void* tn_plugin_entry(const void* host, void* error);
const void* tn_plugin_entry(const void* host, void* error) {
  (void)host, (void)error;
  return 0;
}
