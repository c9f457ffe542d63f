// SPDX-License-Identifier: Apache-2.0
// block.hpp: a block, the pool's record of one range of device memory. The memory itself is never written.
//
// Invariant: the blocks of a segment tile it in address order. A block is in one place only: in a Buffer, in its cache's
// bins or remote list, in the pool's inbox or waiting list, or free in the central store.
#pragma once

#include <tenon/buffer.hpp>

#include "runtime/timeline.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace tenon::runtime {

struct Block;
class Cache;

// One allocation of the device.
struct Segment {
  tn_memory* memory = nullptr;
  uint64_t bytes = 0;
  uint64_t serial = 0;
  bool small = false;
  Block* first = nullptr;
};

// A use of a buffer on a stream that does not own it.
struct Use {
  Hold line;
  std::atomic<uint64_t> need{0};  // what it must reach; see need_of
  Use* next = nullptr;
};

// The first cache line is all that allocation and release touch.
struct alignas(64) Block : detail::Block {
  std::atomic<uint64_t> asked{0};  // 0: in no Buffer
  Cache* cache = nullptr;          // its owner, while it is not in the central store
  Block* next = nullptr;           // of the list it is in
  std::atomic<Use*> uses{nullptr};
  uint64_t need = 0;  // what its owner must reach before other streams may have it; see need_of
  uint64_t bytes = 0;

  Segment* segment = nullptr;
  Block* before = nullptr;  // neighbours in the segment
  Block* after = nullptr;
  bool central = false;
};

// What `line` must reach for all work enqueued so far: twice its newest value, plus one when more was enqueued since.
inline uint64_t need_of(const Timeline& line) noexcept {
  const uint32_t more = line.unrecorded.load(std::memory_order_acquire);
  return line.recorded.load(std::memory_order_acquire) * 2 + more;
}
// The value that stands for `need`; none while the stream has not recorded since.
inline std::optional<uint64_t> fence_of(uint64_t need, const Timeline& line) noexcept {
  const uint64_t value = need / 2;
  if (need % 2 == 0) return value;
  const uint64_t recorded = line.recorded.load(std::memory_order_acquire);
  return recorded > value ? std::optional(recorded) : std::nullopt;
}

// Hands out T's from chunks and keeps them until it dies; T has a member `next`. Externally locked.
template <class T>
class Slab {
 public:
  T* make() {
    if (free_ == nullptr) grow();
    T* item = free_;
    free_ = item->next;
    item->next = nullptr;
    return item;
  }
  void give(T* item) noexcept {
    item->next = free_;
    free_ = item;
  }

 private:
  void grow() {
    constexpr size_t count = 64;
    auto& chunk = chunks_.emplace_back(std::make_unique<T[]>(count));
    for (size_t i = 0; i < count; ++i) give(&chunk[i]);
  }
  std::vector<std::unique_ptr<T[]>> chunks_;
  T* free_ = nullptr;
};

// A list that any thread pushes to and one at a time empties whole; never popped singly, so it knows no ABA.
class BlockStack {
 public:
  void push(Block* block) noexcept {
    Block* head = head_.load(std::memory_order_relaxed);
    do block->next = head;
    while (!head_.compare_exchange_weak(head, block, std::memory_order_seq_cst, std::memory_order_relaxed));
  }
  Block* take_all() noexcept { return head_.exchange(nullptr, std::memory_order_seq_cst); }
  bool empty() const noexcept { return head_.load(std::memory_order_relaxed) == nullptr; }

 private:
  std::atomic<Block*> head_{nullptr};
};

}  // namespace tenon::runtime
