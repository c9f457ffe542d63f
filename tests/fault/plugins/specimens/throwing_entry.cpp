// SPDX-License-Identifier: Apache-2.0
// throwing_entry.cpp: lets an exception out of the entry.
#include "minimal.h"

#include <stdexcept>

extern "C" const tn_plugin* tn_plugin_entry(const tn_host*, tn_error*) {
  throw std::runtime_error("no such card");
}
