// SPDX-License-Identifier: Apache-2.0
// entries.hpp: the keys and values of a store that this process keeps.
//
// Invariant: entries are only added, so a reader that found one keeps what it found.
#pragma once

#include "base/clock.hpp"

#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace tenon::comm {

class Entries {
 public:
  // False when the key is there already. [any-thread; does not block; cannot fail]
  bool add(std::string_view key, std::string_view value) {
    const std::lock_guard lock(mutex_);
    if (!entries_.try_emplace(std::string(key), value).second) return false;
    added_.notify_all();
    return true;
  }
  // Waits for the key until the deadline. [any-thread; blocks; cannot fail]
  std::optional<std::string> find(std::string_view key, const base::Deadline& deadline) {
    std::unique_lock lock(mutex_);
    for (;;) {
      const auto found = entries_.find(key);
      if (found != entries_.end()) return found->second;
      if (deadline.passed()) return std::nullopt;
      // In slices, because the longest times overflow what the library adds to its clock.
      added_.wait_for(lock, std::min<std::chrono::nanoseconds>(deadline.left(), std::chrono::hours(1)));
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable added_;
  std::map<std::string, std::string, std::less<>> entries_;
};

}  // namespace tenon::comm
