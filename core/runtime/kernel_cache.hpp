// SPDX-License-Identifier: Apache-2.0
// kernel_cache.hpp: what one device compiled and what it said it supports, by fragment identity.
//
// Invariant: an equal fragment with equal options is compiled once, also when several threads ask at the same time; a
// refusal is told to all who waited and then forgotten. A kernel lives as long as somebody has its Compiled, and until
// `forget` or the device's end in any case.
#pragma once

#include <tenon/plugin.h>
#include <tenon/device.hpp>
#include <tenon/kernel.hpp>

#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>

namespace tenon::runtime {

// A kernel of a plugin, which is destroyed with this.
struct Compiled {
  Compiled() = default;
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;
  ~Compiled();

  const tn_plugin* plugin = nullptr;
  tn_kernel* handle = nullptr;
  tn_kernel_info info{};
};

class KernelCache {
 public:
  KernelCache(const tn_plugin* plugin, tn_device* device) : plugin_(plugin), device_(device) {}

  // [any-thread; may block; may fail]
  Result<std::shared_ptr<const Compiled>> compile(const Fragment& fragment, const CompileOptions& options);
  // [any-thread; does not block; may fail]
  Result<Support> supports(const Fragment& fragment);
  KernelCacheStats stats() const;
  // Destroys the kernels that nobody has, and forgets all answers; gives how many they were. Does nothing while somebody
  // keeps all. [any-thread; may block; cannot fail]
  uint64_t forget();
  // A capture replays kernels without naming them. [any-thread; does not block; cannot fail]
  void keep_all() noexcept { ++keepers_; }
  void let_go() noexcept { --keepers_; }

 private:
  struct Key {
    Identity identity;
    double budget_ms;
    uint64_t workspace_limit;
    bool operator==(const Key&) const = default;
  };
  struct HashOfIdentity {  // which is a digest already
    size_t operator()(const Identity& identity) const noexcept {
      size_t hash = 0;
      std::memcpy(&hash, identity.data(), sizeof hash);
      return hash;
    }
    size_t operator()(const Key& key) const noexcept { return (*this)(key.identity); }
  };
  struct Entry {
    std::mutex mutex;  // held while compiling
    Compiled compiled;
    std::optional<Error> refusal;
  };

  Status fill(Entry& entry, const Fragment& fragment, const CompileOptions& options) const;

  const tn_plugin* plugin_;
  tn_device* device_;
  mutable std::mutex mutex_;
  std::unordered_map<Key, std::shared_ptr<Entry>, HashOfIdentity> kernels_;
  std::unordered_map<Identity, Support, HashOfIdentity> supports_;
  uint64_t hits_ = 0, misses_ = 0;
  std::atomic<uint32_t> keepers_{0};
};

}  // namespace tenon::runtime
