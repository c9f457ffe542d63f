// SPDX-License-Identifier: Apache-2.0
// file_stream.hpp: files too large for memory: read from front to back, written at any place and shown when whole.
//
// Invariant: at any moment, and after a crash, the path of a FileWriter holds the old file or the new one, never a part.
#pragma once

#include "base/fd.hpp"

#include <tenon/result.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace tenon::base {

class FileReader {
 public:
  // TN_NOT_FOUND; TN_INVALID for what is not a regular file. [any-thread; may block; may fail]
  static Result<FileReader> open(std::string path);
  // What the file had when it was opened. [any-thread; does not block; cannot fail]
  uint64_t bytes() const noexcept { return bytes_; }
  // Fills `into` with the next bytes. TN_INVALID when the file has fewer. [one thread; may block; may fail]
  Status read(std::span<std::byte> into);

 private:
  FileReader(std::string path, Fd fd, uint64_t bytes)
      : path_(std::move(path)), fd_(std::move(fd)), bytes_(bytes) {}

  std::string path_;
  Fd fd_;
  uint64_t bytes_;
  uint64_t at_ = 0;
};

// Writes NAME.<process>-<number>.partial beside the file called NAME, and holds its lock for as long as it lives. So one whose
// lock is free was left by a process that ended.
class FileWriter {
 public:
  // The folder must exist: TN_NOT_FOUND. [any-thread; may block; may fail]
  static Result<FileWriter> create(const std::string& path);
  FileWriter(FileWriter&&) noexcept = default;
  FileWriter& operator=(FileWriter&&) = delete;
  // Not committed, it leaves nothing behind.
  ~FileWriter();

  // Puts `bytes` at `offset`; a gap reads as zeros. TN_INVALID with path, the system's words and a remedy.
  // [one thread; may block; may fail]
  Status write(uint64_t offset, std::span<const std::byte> bytes);
  // Makes it the file at its path, on the disk. The last call; errors as above. [one thread; blocks; may fail]
  Status commit();

 private:
  FileWriter(std::string path, std::string partial, Fd fd)
      : path_(std::move(path)), partial_(std::move(partial)), fd_(std::move(fd)) {}

  std::string path_, partial_;
  Fd fd_;
};

// Removes from `folder` what FileWriters of processes that ended left of files whose name is `wanted`. What cannot be removed
// stays. [any-thread; may block; cannot fail]
void remove_partials(const std::string& folder, const std::function<bool(std::string_view name)>& wanted);

}  // namespace tenon::base
