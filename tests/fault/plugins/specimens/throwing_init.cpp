// SPDX-License-Identifier: Apache-2.0
// throwing_init.cpp: a static initialiser throws, which ends any process that opens the library.
#include "minimal.h"

#include <stdexcept>

static const int start = [] {
  if (minimal_plugin.header.major != 0) throw std::runtime_error("no licence server");
  return 0;
}();

extern "C" const tn_plugin* tn_plugin_entry(const tn_host*, tn_error*) {
  return start == 0 ? minimal_called("throwing_init") : nullptr;
}
