// SPDX-License-Identifier: Apache-2.0
// file_stream.cpp: see file_stream.hpp.
//
// Invariant: a partial file is removed only by who holds its lock, and its writer goes on only when its name is still its own.
#include "base/file_stream.hpp"

#include "base/file.hpp"
#include "base/host.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tenon::base {
namespace {

constexpr std::string_view partial_end = ".partial";

std::string folder_or_here(const std::string& path) {
  const std::string folder = folder_of(path);
  return folder.empty() ? "." : folder;
}

// What to do about `number`, which a call on `path` failed with.
std::string remedy(int number, const std::string& path) {
  switch (number) {
    case ENOSPC:
    case EDQUOT:
      return ": free space there, or write elsewhere";
    case EFBIG:
      return ": the limit on a file's size (ulimit -f) or the file system takes no more";
    case ENOENT:
    case ENOTDIR:
      return ": make the folder " + folder_or_here(path) + " first";
    case EACCES:
    case EPERM:
    case EROFS:
      return ": let this user write to the folder " + folder_or_here(path) + ", or write elsewhere";
    case EISDIR:
      return ": that is a folder, choose another name";
    case EIO:
      return ": the disk is failing, write elsewhere";
    default:
      return "";
  }
}

Status write_failure(const char* what, const std::string& path, int number) {
  Error error = file_failure(what, path, number).error();
  error.message += remedy(number, path);
  return Status(std::move(error));
}

// Where the file system has no locks nobody has one, and nothing counts as left behind.
enum class Lock : uint8_t { mine, anothers, unknown };
Lock lock(const Fd& fd) noexcept {
  if (flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return Lock::mine;
  return errno == EWOULDBLOCK ? Lock::anothers : Lock::unknown;
}

// Whether it is a regular file, and the one at `path`.
bool is_named(const Fd& fd, const std::string& path) noexcept {
  struct stat mine, named;
  return fstat(fd.get(), &mine) == 0 && lstat(path.c_str(), &named) == 0 && S_ISREG(mine.st_mode) &&
         mine.st_dev == named.st_dev && mine.st_ino == named.st_ino;
}

Status sync(const Fd& fd, const std::string& path) {
  while (fsync(fd.get()) != 0)
    if (errno != EINTR) return write_failure("bring to the disk", path, errno);
  return {};
}

// So that the name survives a crash, too. EINVAL: this file system keeps names without being asked.
Status sync_folder_of(const std::string& path) {
  const std::string folder = folder_or_here(path);
  const Fd fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return write_failure("open", folder, errno);
  Status synced = sync(fd, folder);
  if (!synced.ok() && synced.error().native_code == EINVAL) return {};
  return synced;
}

// "a.bin.4711-2.partial" → "a.bin"; "" for what no FileWriter names so.
std::string_view whole_name(std::string_view name) noexcept {
  if (!name.ends_with(partial_end)) return {};
  name.remove_suffix(partial_end.size());
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return {};
  const std::string_view mark = name.substr(dot + 1);
  const bool ours = std::count(mark.begin(), mark.end(), '-') == 1 &&
                    mark.find_first_not_of("0123456789-") == std::string_view::npos;
  return ours ? name.substr(0, dot) : std::string_view();
}

}  // namespace

Result<FileReader> FileReader::open(std::string path) {
  Fd fd = TN_TRY(open_to_read(path));
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return file_failure("look at", path, errno);
  return FileReader(std::move(path), std::move(fd), static_cast<uint64_t>(info.st_size));
}

Status FileReader::read(std::span<std::byte> into) {
  while (!into.empty()) {
    const ssize_t got = ::read(fd_.get(), into.data(), into.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return file_failure("read", path_, errno);
    if (got == 0) return {TN_INVALID, path_ + " ends at byte " + std::to_string(at_) + ", while it is read"};
    at_ += static_cast<uint64_t>(got);
    into = into.subspan(static_cast<size_t>(got));
  }
  return {};
}

Result<FileWriter> FileWriter::create(const std::string& path) {
  static std::atomic<uint64_t> made{0};
  for (;;) {
    std::string partial = path + "." + std::to_string(process_id()) + "-" + std::to_string(made++);
    partial += partial_end;
    Fd fd(open(partial.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (!fd && errno == EEXIST) continue;
    if (!fd) return write_failure("write", path, errno);
    if (lock(fd) != Lock::anothers && is_named(fd, partial))
      return FileWriter(path, std::move(partial), std::move(fd));
    // Taken for left behind before it was locked, and removed by now or in a moment: once more.
  }
}

FileWriter::~FileWriter() {
  if (fd_) unlink(partial_.c_str());
}

Status FileWriter::write(uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t put = pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return write_failure("write", path_, errno);
    offset += static_cast<uint64_t>(put);
    bytes = bytes.subspan(static_cast<size_t>(put));
  }
  return {};
}

Status FileWriter::commit() {
  TN_TRY(sync(fd_, path_));
  if (rename(partial_.c_str(), path_.c_str()) != 0) return write_failure("write", path_, errno);
  fd_.reset();
  return sync_folder_of(path_);
}

void remove_partials(const std::string& folder, const std::function<bool(std::string_view name)>& wanted) {
  const auto names = list_folder(folder.empty() ? "." : folder);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    const std::string_view whole = whole_name(name);
    if (whole.empty() || !wanted(whole)) continue;
    const std::string path = folder.empty() ? name : folder + "/" + name;
    const Fd fd(open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (fd && lock(fd) == Lock::mine && is_named(fd, path)) unlink(path.c_str());
  }
}

}  // namespace tenon::base
