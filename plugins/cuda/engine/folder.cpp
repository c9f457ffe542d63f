// SPDX-License-Identifier: Apache-2.0
// folder.cpp: where the folder is, and how files come to lie in it.
#include "folder.hpp"

#include <tenon/author/text.hpp>

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <system_error>

namespace tenon::cuda {

using author::text;
namespace fs = std::filesystem;

namespace {

// The environment is not asked in a process that runs with more rights than its user.
fs::path default_cache() {
  if (const char* folder = secure_getenv("XDG_CACHE_HOME"); folder != nullptr && folder[0] == '/')
    return fs::path(folder) / "tenon" / "cuda";
  if (const char* home = secure_getenv("HOME"); home != nullptr && home[0] == '/')
    return fs::path(home) / ".cache" / "tenon" / "cuda";
  return {};
}

}  // namespace

// Under another name first, so that nobody reads half of it.
bool write_file(const fs::path& file, std::string_view bytes) {
  static std::atomic<unsigned> count{0};
  std::error_code trouble;
  fs::create_directories(file.parent_path(), trouble);
  if (!trouble) fs::permissions(file.parent_path(), fs::perms::owner_all, trouble);
  const fs::path part = fs::path(file) += text(".", getpid(), ".", count.fetch_add(1));
  std::ofstream out(part, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  if (out) fs::rename(part, file, trouble);
  if (out && !trouble) return true;
  fs::remove(part, trouble);
  return false;
}

Folder::Folder(author::Host host) : host_(host) {
  const char* const folder = host.option("cache");
  if (folder == nullptr) {
    path_ = default_cache();
  } else if (std::string_view(folder) != "off") {
    path_ = folder;
  }
}

std::string Folder::find(const std::string& name) const {
  if (path_.empty()) return {};
  std::ifstream in(path_ / name, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void Folder::keep(const std::string& name, std::string_view bytes) const {
  if (path_.empty() || write_file(path_ / name, bytes)) return;
  host_.log(TN_LOG_INFO, text(name, " is not kept: ", path_.string(), " cannot be written to"));
}

}  // namespace tenon::cuda
