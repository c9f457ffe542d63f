// SPDX-License-Identifier: Apache-2.0
// opens_driver.cpp: opens the library beside it that is called driver.so, if there is one, and all in the folder drivers, as a
// plugin opens libraries of the system: nothing in its own file tells that it will.
#include "../specimens/minimal.h"

#include <dlfcn.h>

#include <filesystem>
#include <system_error>

static void open_drivers() {
  Dl_info here{};
  if (dladdr(&minimal_plugin, &here) == 0 || here.dli_fname == nullptr) return;
  const std::filesystem::path folder = std::filesystem::path(here.dli_fname).parent_path();
  dlopen((folder / "driver.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "drivers", none))
    dlopen(entry.path().c_str(), RTLD_NOW | RTLD_LOCAL);
}

TN_EXPORT const tn_plugin* tn_plugin_entry(const tn_host*, tn_error*) {
  open_drivers();
  return minimal_called("opens_driver");
}
