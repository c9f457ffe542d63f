// SPDX-License-Identifier: Apache-2.0
// text_file.hpp: files that the tool reads and writes whole.
#pragma once

#include <tenon/result.hpp>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace tenon::tool {

// TN_NOT_FOUND, also of a folder. [any-thread; may block; may fail]
inline Result<std::string> text_of(const std::string& path) {
  std::error_code absent;
  if (std::filesystem::is_directory(path, absent))
    return Status(TN_NOT_FOUND, "'" + path + "' is a folder: name a file");
  std::ifstream file(path, std::ios::binary);
  if (!file) return Status(TN_NOT_FOUND, "'" + path + "' does not open: name a file that can be read");
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// Replaces the file. [any-thread; may block; may fail]
inline Status write_text(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  return file.flush() ? Status() : Status(TN_INVALID, "'" + path + "' cannot be written");
}

}  // namespace tenon::tool
