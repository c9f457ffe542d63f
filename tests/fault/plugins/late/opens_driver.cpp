// SPDX-License-Identifier: Apache-2.0
// opens_driver.cpp: opens the library beside it that is called driver.so, if there is one, as a plugin opens a driver of the
// system: nothing in its own file tells that it will.
#include "../specimens/minimal.h"

#include <dlfcn.h>

#include <string>

static void open_driver() {
  Dl_info here{};
  if (dladdr(&minimal_plugin, &here) == 0 || here.dli_fname == nullptr) return;
  const std::string file = here.dli_fname;
  dlopen((file.substr(0, file.rfind('/')) + "/driver.so").c_str(), RTLD_NOW | RTLD_LOCAL);
}

TN_EXPORT const tn_plugin* tn_plugin_entry(const tn_host*, tn_error*) {
  open_driver();
  return minimal_called("opens_driver");
}
