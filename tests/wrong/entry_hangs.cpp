// SPDX-License-Identifier: Apache-2.0
// entry_hangs.cpp: the entry never returns.
#include <tenon/abi.h>

#include <unistd.h>

extern "C" TN_EXPORT const tn_plugin* tn_plugin_entry(const tn_host* /*host*/, tn_error* /*error*/) {
  while (true) pause();
}
