// SPDX-License-Identifier: Apache-2.0
// TempFolder: a folder of this test's own, removed with all that is in it.
// Invariant: nobody but this user may write there, so the loader trusts what a test puts inside.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>

namespace tenon::test {

class TempFolder {
 public:
  TempFolder() : path_((std::filesystem::temp_directory_path() / "tenon-test-XXXXXX").string()) {
    if (mkdtemp(path_.data()) == nullptr) throw std::runtime_error("cannot make " + path_);
    path_ = std::filesystem::canonical(path_).string();
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::string& path() const noexcept { return path_; }
  // The full path of `name` inside. [any-thread]
  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }

  // Writes a file, making folders on the way; returns its path.
  std::string write(std::string_view name, std::string_view text) const {
    const std::string path = *this / name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path, std::ios::binary).write(text.data(), static_cast<std::streamsize>(text.size()));
    allow(path, 0644);
    return path;
  }

  // Sets permission bits, whatever the umask.
  static void allow(const std::string& path, unsigned mode) {
    std::filesystem::permissions(path, static_cast<std::filesystem::perms>(mode));
  }

 private:
  std::string path_;
};

}  // namespace tenon::test
