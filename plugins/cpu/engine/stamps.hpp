// SPDX-License-Identifier: Apache-2.0
// stamps.hpp: when the TIMED values of a stream were reached.
//
// The newest `capacity` of them are kept; a trace reads them long before they fall out.
// Invariant: one worker writes, any thread reads; a reader that meets a slot being rewritten sees it as fallen out.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace tenon::cpu {

class Stamps {
 public:
  static constexpr uint64_t capacity = 4096;

  Stamps() : entries_(std::make_unique<Entry[]>(capacity)) {}

  // [worker; does not block; cannot fail]
  void write(uint64_t value, uint64_t ns) noexcept {
    const uint64_t n = count_.load(std::memory_order_relaxed);
    Entry& entry = entries_[n % capacity];
    entry.value.store(0, std::memory_order_seq_cst);
    entry.ns.store(ns, std::memory_order_seq_cst);
    entry.value.store(value, std::memory_order_seq_cst);
    count_.store(n + 1, std::memory_order_release);
  }
  // False when `value` was not recorded with TIMED, or fell out. [any-thread; does not block; cannot fail]
  bool read(uint64_t value, uint64_t& ns) const noexcept {
    if (value == 0) return false;
    const uint64_t newest = count_.load(std::memory_order_acquire);
    const uint64_t kept = newest < capacity ? newest : capacity;
    for (uint64_t i = 0; i < kept; ++i) {
      const Entry& entry = entries_[(newest - 1 - i) % capacity];
      if (entry.value.load(std::memory_order_seq_cst) != value) continue;
      ns = entry.ns.load(std::memory_order_seq_cst);
      return entry.value.load(std::memory_order_seq_cst) == value;
    }
    return false;
  }

 private:
  struct Entry {
    std::atomic<uint64_t> value{0};  // 0: empty; the timeline's first value is 1
    std::atomic<uint64_t> ns{0};
  };
  std::unique_ptr<Entry[]> entries_;
  std::atomic<uint64_t> count_{0};
};

}  // namespace tenon::cpu
