// SPDX-License-Identifier: Apache-2.0
// right.cpp: the honest plugin as it is: the control of the experiment.
#include "wrong.hpp"

extern "C" TN_EXPORT const tn_plugin* tn_plugin_entry(const tn_host* host, tn_error* error) {
  return honest_entry(host, error);
}
