// SPDX-License-Identifier: Apache-2.0
// store.hpp: the key-value store that ranks of a case meet over: files of a folder, for threads and processes alike.
//
// Invariant: a key is seen whole or not at all, because its file is written under another name first.
#pragma once

#include <tenon/host.h>
#include <tenon/result.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace tenon::conform {

// A folder that is removed with all it holds.
class MeetingPlace {
 public:
  // [any-thread; may block; may fail]
  static Result<MeetingPlace> make();
  MeetingPlace(MeetingPlace&& other) noexcept { folder_.swap(other.folder_); }
  MeetingPlace& operator=(MeetingPlace&&) = delete;
  ~MeetingPlace();
  const std::string& folder() const noexcept { return folder_; }

 private:
  MeetingPlace() = default;
  std::string folder_{};
};

class FolderStore {
 public:
  explicit FolderStore(std::string folder);
  FolderStore(const FolderStore&) = delete;
  FolderStore& operator=(const FolderStore&) = delete;

  // What is handed to a plugin; lives as long as this object.
  const tn_store* table() const noexcept { return &table_; }
  // TN_INVALID for a key that is there. [any-thread; may block; may fail]
  Status set(const std::string& key, const std::vector<std::byte>& value) const;
  // Waits for it. TN_TIMEOUT. [any-thread; blocks; may fail]
  Result<std::vector<std::byte>> get(const std::string& key, uint64_t timeout_ns) const;

 private:
  std::string file_of(const std::string& key) const;
  std::string folder_;
  tn_store table_{};
};

}  // namespace tenon::conform
