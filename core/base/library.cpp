// SPDX-License-Identifier: Apache-2.0
// library.cpp: see library.hpp.
#include "base/library.hpp"

#include "base/file.hpp"

#include <dlfcn.h>
#include <link.h>

namespace tenon::base {

Result<Library> Library::open(const std::string& path) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle != nullptr) return Library(handle);
  const char* text = dlerror();
  return Status(TN_INVALID, text != nullptr ? text : "dlopen failed without a message", "dlopen");
}

void* Library::symbol(const char* name) const noexcept { return dlsym(handle_, name); }

std::vector<std::string> open_libraries() {
  std::vector<std::string> paths;
  const auto take = [](dl_phdr_info* info, size_t, void* out) {
    const std::string_view name = info->dlpi_name != nullptr ? info->dlpi_name : "";
    if (name.find('/') != std::string_view::npos)
      static_cast<std::vector<std::string>*>(out)->emplace_back(name);
    return 0;
  };
  dl_iterate_phdr(take, &paths);  // which holds a lock, so files are looked at behind it
  for (std::string& path : paths) {
    if (auto real = real_path(path); real.ok()) path = *std::move(real);
  }
  return paths;
}

std::string own_folder() {
  static const char here = 0;
  Dl_info info;
  if (dladdr(&here, &info) == 0 || info.dli_fname == nullptr) return {};
  // A program is listed under the name it was called by, which may be relative to a folder that is long left.
  const std::string listed = info.dli_fname;
  const auto path = real_path(is_absolute(listed) ? listed : "/proc/self/exe");
  return path.ok() ? folder_of(*path) : std::string();
}

}  // namespace tenon::base
