// SPDX-License-Identifier: Apache-2.0
// searches_where_it_runs.cpp: its search path is relative, so what it loads depends on the working directory.
#include "wrong.hpp"

extern "C" TN_EXPORT const tn_plugin* tn_plugin_entry(const tn_host* host, tn_error* error) {
  return honest_entry(host, error);
}
