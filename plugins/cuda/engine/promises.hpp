// SPDX-License-Identifier: Apache-2.0
// promises.hpp: values that the host completes, as one word of pinned memory that streams wait on.
//
// A promise may be kept out of order; the word shows the longest run of kept ones. Once promises are given up, the word
// lets everyone pass.
// Invariant: the word never decreases while a stream may look at it, and is never used for another stream's promises.
#pragma once

#include "storage.hpp"

#include <condition_variable>
#include <deque>

namespace tenon::cuda {

// Words for the device's life, eight bytes each, in pages shared by all streams.
class Words {
 public:
  explicit Words(std::shared_ptr<Context> context) : context_(std::move(context)) {}
  // A word of zero. [any-thread; may block; may fail]
  Result<std::atomic<uint64_t>*> take();

 private:
  static constexpr uint64_t page = 4096;
  std::shared_ptr<Context> context_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Storage>> pages_{};
  uint64_t used_ = page;  // of the last page
};

class Promises {
 public:
  explicit Promises(std::atomic<uint64_t>& word) : word_(word) {}

  uint64_t newest() const noexcept { return newest_.load(std::memory_order_relaxed); }
  uint64_t kept() const noexcept { return word_.load(std::memory_order_acquire); }
  // Where a stream finds the word.
  CUdeviceptr address() const noexcept { return reinterpret_cast<CUdeviceptr>(&word_); }
  // [stream's thread; does not block; cannot fail]
  uint64_t make();
  // TN_INVALID for a value never promised, or kept already. [any-thread; does not block; may fail]
  Status keep(uint64_t value, int32_t code);
  // Blocks until `value` is kept; the failure when it was broken. [any-thread; blocks; may fail]
  Status sync(uint64_t value, uint64_t timeout_ns);
  // The failure that a broken promise left, if any. [any-thread; does not block; may fail]
  Status failure() const;
  // Lets everyone pass; how many promises were never kept. [any-thread; does not block; cannot fail]
  uint64_t give_up() noexcept;

 private:
  static constexpr int32_t open = -1;
  // The word that lets everyone pass. Devices compare in a circle: what is half of it ahead counts as behind.
  static constexpr uint64_t all = uint64_t{1} << 62;
  void settle();

  std::atomic<uint64_t>& word_;
  std::atomic<uint64_t> newest_{0};
  mutable std::mutex mutex_;
  std::condition_variable changed_{};
  std::deque<int32_t> codes_{};  // of values settled_ + 1 …
  uint64_t settled_ = 0, broken_at_ = UINT64_MAX;
  Error broken_{};
};

}  // namespace tenon::cuda
