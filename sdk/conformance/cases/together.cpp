// SPDX-License-Identifier: Apache-2.0
// together.cpp: two plugins in one process: a copy of the library is another one to the linker, with the same habits.
#include "conformance/case.hpp"
#include "conformance/cases/tour.hpp"

#include <sys/mman.h>

#include <fstream>

namespace tenon::conform {

namespace {

// The library's bytes under another name; the file lasts as long as the process.
Result<std::string> copy_of(const std::string& library) {
  const int file = memfd_create("copy-of-the-plugin", 0);
  if (file < 0) return Status(TN_NO_MEMORY, "memfd_create failed");
  std::string path = words("/proc/self/fd/", file);
  std::ofstream(path, std::ios::binary) << std::ifstream(library, std::ios::binary).rdbuf();
  return path;
}

// Another plugin's host and tables, for the rest of the process.
Result<Tables> enter_copy(const Settings& settings, tn_plugin_entry_fn entry) {
  Host& host = *new Host;
  host.options = settings.options;
  static Host* const kept = &host;  // reachable to the end, as the plugin may log until then
  return enter(entry, kept->table);
}

}  // namespace

CONFORM_CASE(0, "abi: beside a second plugin each has a life of its own", .alone = true) {
  TN_TRY(tour(t));
  const auto other = open_library(TN_TRY(copy_of(t.settings().plugin)));
  if (!other.ok()) return t.skip(words("a copy of the library does not open elsewhere: ", other.message()));
  TN_TRY(t.require(other->entry != TN_TRY(t.library()).entry, "the linker gave the same library twice"));
  auto entered = enter_copy(t.settings(), other->entry);
  TN_TRY(t.require(entered.ok(), "beside another plugin the entry refuses: ", entered.message()));
  const Tables& api = *entered;
  const tn_device_options options{.size = sizeof(tn_device_options), .reserved = 0, .next = nullptr};
  tn_device* handle = nullptr;
  const Status opened = t.call("device.open", [&](tn_error* e) {
    return api.device.open(api.plugin, t.settings().device, &options, &handle, e);
  });
  if (opened.code() == TN_BUSY) return t.unsupported("device.shared", std::string(opened.message()));
  TN_TRY(t.require(opened.ok(), opened.message()));
  {
    const Device second(t, api, handle);
    TN_TRY(tour(t, second));
    TN_TRY(tour(t));
    TN_TRY(tour(t, second));
  }
  t.accepts("shutdown of the second plugin", [&](tn_error* e) { return api.copy.shutdown(api.plugin, e); });
  return tour(t);
}

}  // namespace tenon::conform
