// SPDX-License-Identifier: Apache-2.0
// opening PLUGIN.so: what it takes to open the plugin, enter it and be told why it has no device.
//
// Prints the microseconds, and what `count` says.
// Invariant: a process opens it once, so nothing of it is there already.
#include <tenon/abi.h>

#include <dlfcn.h>

#include <chrono>
#include <cstdio>

int main(int count, char** words) {
  if (count != 2) return 2;
  tn_host host{};
  host.header = {sizeof host, TN_ABI_MAJOR, TN_ABI_MINOR};
  host.min_major = TN_ABI_MAJOR;
  host.name = "opening";
  host.option = [](void*, const char*, const char*) -> const char* { return nullptr; };
  tn_error error{};
  error.size = sizeof error;
  uint32_t devices = 7;

  const auto begin = std::chrono::steady_clock::now();
  void* const library = dlopen(words[1], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  const auto entry = reinterpret_cast<tn_plugin_entry_fn>(dlsym(library, TN_PLUGIN_ENTRY_NAME));
  const tn_plugin* const plugin = entry != nullptr ? entry(&host, &error) : nullptr;
  if (plugin == nullptr) {
    std::fprintf(stderr, "no plugin: %s\n", error.message);
    return 1;
  }
  const int32_t code = plugin->device->count(plugin, &devices, &error);
  const std::chrono::duration<double, std::micro> spent = std::chrono::steady_clock::now() - begin;

  std::printf("%.1f us, %u devices, code %d: %s\n", spent.count(), devices, code, error.message);
  return 0;
}
