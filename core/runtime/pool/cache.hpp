// SPDX-License-Identifier: Apache-2.0
// cache.hpp: the free blocks of one stream, ready to be handed out again in stream order.
//
// Invariant: the bins are on loan to at most one thread. Who finds them out does not wait: an allocation goes the slow
// way through the pool, a release leaves its block on the remote list. The borrower takes no lock and calls no plugin.
#pragma once

#include "runtime/pool/block.hpp"
#include "runtime/pool/size_class.hpp"

#include <array>
#include <memory>

namespace tenon::runtime {

class Pool;

// What is on loan: the free blocks by class, and the counts of this cache.
struct Bins {
  std::array<Block*, size_classes> heads{};
  uint64_t allocations = 0, used = 0, rounded = 0, peak_used = 0;
  uint64_t owed = 0;  // blocks handed out, less those that came back the fast way

  Block* pop(SizeClass size) noexcept;
  void push(Block* block, uint32_t index) noexcept {
    block->next = heads[index];
    heads[index] = block;
  }
  template <class Visit>
  void each(Visit visit) const {
    for (const Block* head : heads)
      for (const Block* block = head; block != nullptr; block = block->next) visit(*block);
  }
  void count_out(Block* block, uint64_t asked) noexcept;
  void count_in(Block* block) noexcept;
};

class Cache {
 public:
  Cache(Pool& pool, Timeline& line)
      : pool_(pool), line_(&line), is_captured_(line.collects.load(std::memory_order_acquire)) {}

  // A cached block for `asked` bytes, or nullptr: ask the pool. [any-thread; does not block; cannot fail]
  Block* take(uint64_t asked) noexcept;
  // Takes a block back from its Buffer. [any-thread; does not block; cannot fail]
  void give(Block* block) noexcept;

  // Borrows the bins, nullptr when they are out.
  Bins* borrow() noexcept { return loan_.exchange(nullptr, std::memory_order_acquire); }
  // Borrows them from whoever has them; borrowers are quick. [any-thread; may block; cannot fail]
  Bins* insist() noexcept;
  void hand_back(Bins* bins) noexcept { loan_.store(bins, std::memory_order_release); }
  // Sorts what other threads left: into the bins, or to the pool when other streams still use it. [the borrower]
  void drain(Bins& bins) noexcept;

  // The stream has ended, or the capture: its free blocks are anyone's. `device` is kept open while Buffers are out.
  // [one thread; may block; cannot fail]
  void retire(std::shared_ptr<detail::DeviceState> device) noexcept;

  Timeline& line() const noexcept { return *line_; }
  Pool& pool() const noexcept { return pool_; }
  bool closed() const noexcept { return closed_.load(std::memory_order_seq_cst); }
  // Whether its blocks are a capture's, which replays write to whatever the stream has reached.
  bool is_captured() const noexcept { return is_captured_; }

 private:
  friend class Pool;
  void drain_closed() noexcept;
  void leave() noexcept;

  alignas(64) std::atomic<Bins*> loan_{&bins_};
  Bins bins_;
  alignas(64) BlockStack remote_;
  Pool& pool_;
  Hold line_;
  const bool is_captured_;

  // After the stream has ended: Buffers may outlive it, and keep the device open until the last one is gone.
  bool withdrawn_ = false;  // under the pool's mutex: the bins are the pool's own now
  std::atomic<bool> closed_{false};
  std::atomic<bool> dead_{false};
  std::atomic<uint64_t> outstanding_{0};  // wraps below zero until the stream has ended
  std::shared_ptr<detail::DeviceState> device_;
};

}  // namespace tenon::runtime
