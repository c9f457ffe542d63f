// SPDX-License-Identifier: Apache-2.0
// address_map.hpp: which memory an address belongs to.
//
// Invariant: memories do not overlap; an entry ends before its memory does.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <utility>

namespace tenon::layers {

// `Memory` has a member `bytes`.
template <class Memory>
class AddressMap {
 public:
  using Shared = std::shared_ptr<Memory>;

  // [any-thread; does not block]
  void insert(uint64_t address, Shared memory) {
    const std::unique_lock lock(mutex_);
    by_address_.insert_or_assign(address, std::move(memory));
  }
  // Removes `memory`; another one that took its place stays. [any-thread; does not block; cannot fail]
  void erase(uint64_t address, const Shared& memory) {
    const std::unique_lock lock(mutex_);
    const auto at = by_address_.find(address);
    if (at != by_address_.end() && at->second == memory) by_address_.erase(at);
  }
  // The memory that holds `address`, with its first address; or null. [any-thread; does not block; cannot fail]
  std::pair<Shared, uint64_t> find(uint64_t address) const {
    const std::shared_lock lock(mutex_);
    const auto after = by_address_.upper_bound(address);
    if (after == by_address_.begin()) return {};
    const auto& [begin, memory] = *std::prev(after);
    return address - begin < memory->bytes ? std::pair(memory, begin) : std::pair<Shared, uint64_t>();
  }

 private:
  mutable std::shared_mutex mutex_;
  std::map<uint64_t, Shared> by_address_;
};

}  // namespace tenon::layers
