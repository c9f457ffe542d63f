// SPDX-License-Identifier: Apache-2.0
// folder_store.cpp: a store in a folder that all ranks see: a file for each key, put there whole and only once.
//
// Invariant: a file that has a key's name is complete: it is written under another name and then linked.
#include "base/file.hpp"
#include "base/text.hpp"
#include "comm/store.hpp"

#include <algorithm>
#include <thread>

namespace tenon::comm {
namespace {

constexpr std::chrono::milliseconds first_look(1), slowest_look(20);

struct FolderStore final : detail::StoreState {
  explicit FolderStore(std::string path) { address = std::move(path); }

  // A file name has 255 bytes at most.
  Result<std::string> path_of(std::string_view key) const {
    std::string name = base::file_name_for(key);
    if (name.size() > 240) {
      return Status(TN_INVALID, "the key " + std::string(key) + " is too long for a file's name in " +
                                    address + ": use shorter names");
    }
    return address + "/" + name;
  }

  Status set(std::string_view key, std::string_view value, const base::Deadline&) override {
    const std::string path = TN_TRY(path_of(key));
    Status made = base::create_file(path, value);
    if (made.code() == TN_BUSY) return taken(key, address);
    return made;
  }

  Result<std::string> get(std::string_view key, const base::Deadline& deadline) override {
    const std::string path = TN_TRY(path_of(key));
    for (auto pause = first_look;; pause = std::min(2 * pause, slowest_look)) {
      if (base::file_kind(path) == base::FileKind::file) return base::read_file(path, largest_value);
      if (deadline.passed()) return missing(key, address);
      std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(pause, deadline.left()));
    }
  }

  Result<std::optional<std::string>> look(std::string_view key, const base::Deadline&) override {
    const std::string path = TN_TRY(path_of(key));
    if (base::file_kind(path) != base::FileKind::file) return std::optional<std::string>();
    return std::optional(TN_TRY(base::read_file(path, largest_value)));
  }
};

}  // namespace

Result<std::shared_ptr<detail::StoreState>> make_folder_store(const std::string& path) {
  TN_TRY(base::make_folder(path));
  return std::shared_ptr<detail::StoreState>(std::make_shared<FolderStore>(TN_TRY(base::real_path(path))));
}

}  // namespace tenon::comm
