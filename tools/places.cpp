// SPDX-License-Identifier: Apache-2.0
// places.cpp: the install's layout as seen from bin/tenon: ../lib/tenon/plugins, ../share/tenon/template.
#include "places.hpp"

#include "text.hpp"

#include <errno.h>  // program_invocation_name

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>

namespace tenon::tool {

namespace fs = std::filesystem;

namespace {

fs::path prefix() { return fs::path(executable()).parent_path().parent_path(); }

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

}  // namespace

std::string executable() {
  std::error_code ignored;
  return fs::read_symlink("/proc/self/exe", ignored);
}

std::string invoked_as() { return program_invocation_name; }

Result<std::string> template_folder() {
  const fs::path installed = prefix() / TENON_DATA_DIR / "tenon" / "template";
  if (is_folder(installed)) return installed.string();
  return Status(TN_NOT_FOUND, "the plugin template is not at '" + installed.string() +
                                  "': install Tenon's sdk component into the prefix of this program");
}

std::vector<std::string> plugin_folders(const std::vector<std::string>& first) {
  std::vector<std::string> out = first;
  if (const char* set = std::getenv("TENON_PLUGIN_PATH")) {
    std::istringstream parts(set);
    for (std::string part; std::getline(parts, part, ':');) {
      if (!part.empty()) out.push_back(part);
    }
  }
  out.push_back(prefix() / TENON_LIB_DIR / "tenon" / "plugins");
  return out;
}

std::vector<std::string> plugin_names(const std::vector<std::string>& folders) {
  std::vector<std::string> out;
  for (const std::string& folder : folders) {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(folder, ignored)) {
      const std::string stem = entry.path().stem();
      if (entry.path().extension() == ".so" && stem.starts_with("tenon-")) out.push_back(stem.substr(6));
    }
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

Result<std::string> plugin_file(const std::string& wanted, const std::vector<std::string>& folders) {
  std::error_code ignored;
  if (wanted.find('/') != std::string::npos || wanted.ends_with(".so")) {
    if (fs::is_regular_file(wanted, ignored)) return wanted;
    return Status(TN_NOT_FOUND, "there is no file '" + wanted + "'");
  }
  for (const std::string& folder : folders) {
    const fs::path file = fs::path(folder) / ("tenon-" + wanted + ".so");
    if (fs::is_regular_file(file, ignored)) return file.string();
  }
  const auto known = plugin_names(folders);
  const std::string guess = nearest(wanted, known);
  return Status(TN_NOT_FOUND,
                "no plugin '" + wanted + "' in " + listed(folders) +
                    (guess.empty() ? "; there are: " + listed(known) : ": did you mean '" + guess + "'?"));
}

}  // namespace tenon::tool
