// SPDX-License-Identifier: Apache-2.0
// queue.hpp: the ring between the one thread that feeds a stream and the one worker that serves it.
//
// Command number n lives in slot n mod capacity until the timeline has passed n. What does not fit a slot (many bindings,
// the bytes of a small pageable source) lies in the arena, a second ring of bytes that commands release in order.
// Invariant: nothing is allocated after construction; a full ring is the caller's signal to wait, never a loss.
#pragma once

#include "command.hpp"

#include <memory>
#include <new>

namespace tenon::cpu {

class Queue {
 public:
  // Deep enough for a training step's launches to run ahead; 128 KiB of slots still lie in the second-level cache.
  static constexpr uint64_t capacity = 1024;
  static constexpr uint64_t arena_bytes = 128 << 10;
  static constexpr uint64_t largest_piece = arena_bytes / 4;

  Queue()
      : slots_(static_cast<Command*>(::operator new(capacity * sizeof(Command), alignment))),
        arena_(static_cast<std::byte*>(::operator new(arena_bytes, alignment))) {}

  // --- the feeding thread ---
  uint64_t enqueued() const noexcept { return enqueued_; }
  Command& next_slot() noexcept { return slots_.get()[enqueued_ % capacity]; }
  // Makes the next slot's command visible and returns its value.
  uint64_t publish(Command::Kind kind) noexcept {
    Command& slot = next_slot();
    slot.kind = kind;
    slot.arena_end = arena_head_;
    published_.store(++enqueued_, std::memory_order_release);
    __builtin_prefetch(&next_slot(), 1);  // the worker's cache has it since the last round
    return enqueued_;
  }
  // A piece of the arena for the next command, or nullptr while commands still hold too much of it.
  // `bytes` <= largest_piece.
  std::byte* take(uint64_t bytes) noexcept {
    const uint64_t unit = (bytes + 15) / 16 * 16;
    uint64_t begin = arena_head_;
    if (begin % arena_bytes + unit > arena_bytes) begin += arena_bytes - begin % arena_bytes;
    if (begin + unit - released_.load(std::memory_order_acquire) > arena_bytes) return nullptr;
    arena_head_ = begin + unit;
    return arena_.get() + begin % arena_bytes;
  }

  // --- the worker ---
  uint64_t published() const noexcept { return published_.load(std::memory_order_acquire); }
  Command& slot(uint64_t number) noexcept { return slots_.get()[number % capacity]; }
  void release_arena(uint64_t end) noexcept {
    if (end != released_.load(std::memory_order_relaxed)) released_.store(end, std::memory_order_release);
  }

 private:
  static constexpr std::align_val_t alignment{128};
  struct Delete {
    void operator()(void* memory) const noexcept { ::operator delete(memory, alignment); }
  };

  std::unique_ptr<Command, Delete> slots_;
  std::unique_ptr<std::byte, Delete> arena_;
  uint64_t enqueued_ = 0;    // the feeding thread's
  uint64_t arena_head_ = 0;  // the feeding thread's
  alignas(64) std::atomic<uint64_t> published_{0};
  alignas(64) std::atomic<uint64_t> released_{0};
};

}  // namespace tenon::cpu
