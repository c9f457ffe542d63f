// SPDX-License-Identifier: Apache-2.0
// handle_table.hpp: what a layer knows of a plugin's handles.
//
// Invariant: an entry is shared: whoever found it may use it while another thread erases it. Handles are compared, never
// dereferenced. Sharded, so threads that work on different handles seldom meet.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tenon::layers {

template <class Entry>
class HandleTable {
 public:
  using Shared = std::shared_ptr<Entry>;

  // The entry of `handle`, or null. [any-thread; does not block; cannot fail]
  Shared find(const void* handle) const {
    const Shard& shard = shard_of(handle);
    const std::shared_lock lock(shard.mutex);
    const auto at = shard.entries.find(handle);
    return at == shard.entries.end() ? nullptr : at->second;
  }

  // Sets the entry of `handle`; an older one is replaced. [any-thread; does not block]
  void insert(const void* handle, Shared entry) {
    Shard& shard = shard_of(handle);
    const std::unique_lock lock(shard.mutex);
    shard.entries.insert_or_assign(handle, std::move(entry));
  }

  // The entry of `handle`, or the one that `make` returns, entered. [any-thread; does not block]
  template <class Make>
  Shared find_or_insert(const void* handle, const Make& make) {
    if (Shared known = find(handle)) return known;
    Shard& shard = shard_of(handle);
    const std::unique_lock lock(shard.mutex);
    Shared& entry = shard.entries[handle];
    if (!entry) entry = make();
    return entry;
  }

  // Removes the entry of `handle` and returns it, or null. [any-thread; does not block; cannot fail]
  Shared erase(const void* handle) {
    Shard& shard = shard_of(handle);
    const std::unique_lock lock(shard.mutex);
    const auto at = shard.entries.find(handle);
    if (at == shard.entries.end()) return nullptr;
    Shared entry = std::move(at->second);
    shard.entries.erase(at);
    return entry;
  }

  // All entries, in no order. [any-thread; does not block]
  std::vector<std::pair<const void*, Shared>> all() const {
    std::vector<std::pair<const void*, Shared>> out;
    for (const Shard& shard : shards_) {
      const std::shared_lock lock(shard.mutex);
      out.insert(out.end(), shard.entries.begin(), shard.entries.end());
    }
    return out;
  }

 private:
  struct Shard {
    mutable std::shared_mutex mutex;
    std::unordered_map<const void*, Shared> entries;
  };
  static constexpr size_t shards = 16;
  static size_t index(const void* handle) {
    return (reinterpret_cast<uintptr_t>(handle) * 0x9E3779B97F4A7C15ull) >> 60;
  }
  Shard& shard_of(const void* handle) { return shards_[index(handle)]; }
  const Shard& shard_of(const void* handle) const { return shards_[index(handle)]; }

  std::array<Shard, shards> shards_;
};

}  // namespace tenon::layers
