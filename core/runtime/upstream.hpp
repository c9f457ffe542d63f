// SPDX-License-Identifier: Apache-2.0
// upstream.hpp: the waits of one stream that are not yet known to have been met, oldest first.
//
// Invariant: one producer (the stream's thread) and one consumer at a time (under the stream's `settling` mutex); the
// producer takes no lock. A drained chunk is kept for the next push, so a steady state allocates nothing.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <utility>

namespace tenon::runtime {

struct Timeline;

// The stream waited for `source` to reach `value`; of its own values those above `since` depend on it.
struct Upstream {
  Timeline* source = nullptr;  // one hold, which whoever pops it drops
  uint64_t value = 0;
  uint64_t since = 0;
};

class UpstreamQueue {
 public:
  UpstreamQueue() : head_(new Chunk), tail_(head_) {}
  UpstreamQueue(const UpstreamQueue&) = delete;
  UpstreamQueue& operator=(const UpstreamQueue&) = delete;
  ~UpstreamQueue() {
    delete spare_.load();
    while (head_ != nullptr) delete std::exchange(head_, head_->next.load());
  }

  // [stream's thread; does not block; cannot fail]
  void push(const Upstream& entry) {
    const uint64_t count = pushed_.load(std::memory_order_relaxed);
    if (count % chunk_size == 0 && count != 0) extend();
    tail_->entries[count % chunk_size] = entry;
    pushed_.store(count + 1, std::memory_order_seq_cst);
  }
  // Whether the next push needs a chunk: a good moment to tidy up. [stream's thread]
  bool at_boundary() const noexcept {
    const uint64_t count = pushed_.load(std::memory_order_relaxed);
    return count % chunk_size == 0 && count != 0;
  }
  // [any-thread; does not block; cannot fail]
  bool empty() const noexcept {
    return popped_.load(std::memory_order_acquire) == pushed_.load(std::memory_order_seq_cst);
  }

  // The oldest entry, or nullptr. [the consumer]
  const Upstream* front() noexcept {
    if (empty()) return nullptr;
    if (used_ == chunk_size) recycle();
    return &head_->entries[used_];
  }
  // [the consumer, after front()]
  void pop() noexcept {
    ++used_;
    popped_.fetch_add(1, std::memory_order_release);
  }
  uint64_t popped() const noexcept { return popped_.load(std::memory_order_relaxed); }
  // Calls visit(entry) from the oldest on until it says false. [the consumer]
  template <class Visit>
  void each(Visit visit) const {
    const Chunk* chunk = head_;
    uint32_t at = used_;
    for (uint64_t left = pushed_.load(std::memory_order_seq_cst) - popped(); left > 0; --left, ++at) {
      if (at == chunk_size) {
        chunk = chunk->next.load(std::memory_order_acquire);
        at = 0;
      }
      if (!visit(chunk->entries[at])) return;
    }
  }

 private:
  static constexpr uint32_t chunk_size = 32;
  struct Chunk {
    std::array<Upstream, chunk_size> entries{};
    std::atomic<Chunk*> next{nullptr};
  };

  void extend() {
    Chunk* chunk = spare_.exchange(nullptr, std::memory_order_acq_rel);
    if (chunk == nullptr) chunk = new Chunk;
    chunk->next.store(nullptr, std::memory_order_relaxed);
    tail_->next.store(chunk, std::memory_order_release);
    tail_ = chunk;
  }
  void recycle() noexcept {
    Chunk* done = std::exchange(head_, head_->next.load(std::memory_order_acquire));
    used_ = 0;
    delete spare_.exchange(done, std::memory_order_acq_rel);
  }

  std::atomic<uint64_t> pushed_{0};
  std::atomic<uint64_t> popped_{0};
  std::atomic<Chunk*> spare_{nullptr};
  Chunk* head_;
  uint32_t used_ = 0;  // entries popped from head_
  Chunk* tail_;
};

}  // namespace tenon::runtime
