// SPDX-License-Identifier: Apache-2.0
// file.cpp: see file.hpp. Plain system calls: std::filesystem would hide errno and add exceptions.
#include "base/file.hpp"

#include "base/fd.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tenon::base {

Status file_failure(const char* what, const std::string& path, int number) {
  Error error{.code = number == ENOENT || number == ENOTDIR ? TN_NOT_FOUND : TN_INVALID,
              .message = std::string("cannot ") + what + " " + path + ": " + std::strerror(number),
              .domain = "errno",
              .native_code = number};
  return Status(std::move(error));
}

// O_NONBLOCK: opening a fifo that somebody put in a plugin folder must not hang.
Result<Fd> open_to_read(const std::string& path) {
  Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return file_failure("open", path, errno);
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return file_failure("look at", path, errno);
  if (!S_ISREG(info.st_mode)) return Status(TN_INVALID, path + " is not a regular file");
  return fd;
}

namespace {

// Calls `take` with each piece until the end; returns false when `take` had enough.
template <class Take>
Result<bool> read_pieces(const std::string& path, Take take) {
  Fd fd = TN_TRY(open_to_read(path));
  constexpr size_t piece = 128 * 1024;
  const auto buffer = std::make_unique<char[]>(piece);
  for (;;) {
    const ssize_t got = read(fd.get(), buffer.get(), piece);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return file_failure("read", path, errno);
    if (got == 0) return true;
    if (!take(std::string_view(buffer.get(), static_cast<size_t>(got)))) return false;
  }
}

Status make_folders(const std::string& path) {
  if (path.empty() || path == "/" || file_kind(path) == FileKind::folder) return {};
  TN_TRY(make_folders(folder_of(path)));
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return file_failure("make the folder", path, errno);
  return {};
}

}  // namespace

FileKind file_kind(const std::string& path) noexcept {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return FileKind::absent;
  if (S_ISREG(info.st_mode)) return FileKind::file;
  return S_ISDIR(info.st_mode) ? FileKind::folder : FileKind::other;
}

std::string file_stamp(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return "absent";
  return std::to_string(info.st_size) + "." + std::to_string(info.st_mtim.tv_sec) + "." +
         std::to_string(info.st_mtim.tv_nsec);
}

Result<std::string> real_path(const std::string& path) {
  const std::unique_ptr<char, void (*)(void*)> resolved(realpath(path.c_str(), nullptr), std::free);
  if (resolved == nullptr) return file_failure("resolve", path, errno);
  return std::string(resolved.get());
}

Result<std::vector<std::string>> list_folder(const std::string& path) {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(path.c_str()), closedir);
  if (folder == nullptr) return file_failure("list", path, errno);
  std::vector<std::string> names;
  while (const dirent* entry = readdir(folder.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

Result<std::string> read_file(const std::string& path, uint64_t limit) {
  std::string text;
  const bool whole = TN_TRY(read_pieces(path, [&](std::string_view piece) {
    text += piece;
    return text.size() <= limit;
  }));
  if (!whole) return Status(TN_INVALID, path + " is larger than " + std::to_string(limit) + " bytes");
  return text;
}

Result<Digest> file_digest(const std::string& path) {
  Sha256 hash;
  TN_TRY(read_pieces(path, [&](std::string_view piece) {
    hash.add(piece);
    return true;
  }));
  return hash.finish();
}

namespace {

// Writes `text` into a new file beside `path`, and returns its name.
Result<std::string> write_beside(const std::string& path, std::string_view text) {
  std::string temporary = path + ".XXXXXX";
  Fd fd(mkostemp(temporary.data(), O_CLOEXEC));
  if (!fd) return file_failure("write", path, errno);
  while (!text.empty()) {
    const ssize_t put = write(fd.get(), text.data(), text.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) break;
    text.remove_prefix(static_cast<size_t>(put));
  }
  if (text.empty()) return temporary;
  const int number = errno;
  unlink(temporary.c_str());
  return file_failure("write", path, number);
}

}  // namespace

Status write_file(const std::string& path, std::string_view text) {
  TN_TRY(make_folders(folder_of(path)));
  const std::string temporary = TN_TRY(write_beside(path, text));
  if (rename(temporary.c_str(), path.c_str()) == 0) return {};
  const int number = errno;
  unlink(temporary.c_str());
  return file_failure("write", path, number);
}

Status create_file(const std::string& path, std::string_view text) {
  const std::string temporary = TN_TRY(write_beside(path, text));
  const int number = link(temporary.c_str(), path.c_str()) == 0 ? 0 : errno;
  unlink(temporary.c_str());
  if (number == EEXIST) return Status(TN_BUSY, path + " is there already");
  return number == 0 ? Status() : file_failure("make", path, number);
}

Status make_folder(const std::string& path) {
  TN_TRY(make_folders(path));
  return file_kind(path) == FileKind::folder ? Status() : Status(TN_INVALID, path + " is no folder");
}

Status remove_file(const std::string& path) {
  return unlink(path.c_str()) == 0 || errno == ENOENT ? Status() : file_failure("remove", path, errno);
}

bool is_own_file(const std::string& path) noexcept {
  struct stat info;
  if (lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return false;
  return info.st_uid == geteuid() && (info.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

Result<Writers> writers_of(const std::string& path, bool elevated) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return file_failure("look at", path, errno);
  if ((info.st_mode & S_IWOTH) != 0) return Writers::everybody;
  return elevated && (info.st_mode & S_IWGRP) != 0 ? Writers::group : Writers::trusted;
}

std::string folder_of(std::string_view path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return {};
  return std::string(slash == 0 ? "/" : path.substr(0, slash));
}

std::string name_of(std::string_view path) {
  const size_t slash = path.rfind('/');
  return std::string(slash == std::string_view::npos ? path : path.substr(slash + 1));
}

std::string stem_of(std::string_view path) {
  const std::string name = name_of(path);
  const size_t dot = name.rfind('.');
  return dot == std::string::npos || dot == 0 ? name : name.substr(0, dot);
}

bool is_absolute(std::string_view path) noexcept { return path.starts_with('/'); }

}  // namespace tenon::base
