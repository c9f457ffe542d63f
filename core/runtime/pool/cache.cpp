// SPDX-License-Identifier: Apache-2.0
// cache.cpp: the fast path of allocation and release, and what becomes of it when the stream ends.
#include "runtime/pool/cache.hpp"

#include "runtime/pool/pool.hpp"

#include <thread>

namespace tenon::runtime {

Block* Bins::pop(SizeClass size) noexcept {
  // Past exact_from a class holds blocks of several sizes: a look at the newest few is enough.
  Block** at = &heads[size.index];
  for (int tries = 4; *at != nullptr && tries > 0; --tries, at = &(*at)->next) {
    if ((*at)->bytes < size.bytes) continue;
    Block* block = *at;
    *at = block->next;
    return block;
  }
  return nullptr;
}

void Bins::count_out(Block* block, uint64_t asked) noexcept {
  block->asked.store(asked, std::memory_order_relaxed);
  ++allocations;
  ++owed;
  used += asked;
  rounded += block->bytes;
  if (used > peak_used) peak_used = used;
}

void Bins::count_in(Block* block) noexcept {
  used -= block->asked.load(std::memory_order_relaxed);
  rounded -= block->bytes;
  block->asked.store(0, std::memory_order_relaxed);
}

Block* Cache::take(uint64_t asked) noexcept {
  Bins* bins = borrow();
  if (bins == nullptr) return nullptr;
  const SizeClass size = pool_.sizes().of(asked);
  Block* block = bins->pop(size);
  if (block == nullptr && !remote_.empty()) {
    drain(*bins);
    block = bins->pop(size);
  }
  if (block != nullptr) bins->count_out(block, asked);
  hand_back(bins);
  return block;
}

void Cache::give(Block* block) noexcept {
  block->need = need_of(*line_);
  if (block->uses.load(std::memory_order_acquire) == nullptr) [[likely]] {
    if (Bins* bins = borrow()) [[likely]] {
      --bins->owed;
      bins->count_in(block);
      bins->push(block, pool_.sizes().of(block->bytes).index);
      hand_back(bins);
      return;
    }
  }
  remote_.push(block);
  if (closed()) drain_closed();
  if (outstanding_.fetch_sub(1, std::memory_order_acq_rel) == 1) leave();  // the last touch of this cache
}

Bins* Cache::insist() noexcept {
  for (;;) {
    for (int spin = 0; spin < 64; ++spin)
      if (Bins* bins = borrow()) return bins;
    std::this_thread::yield();
  }
}

void Cache::drain(Bins& bins) noexcept {
  Block* block = remote_.take_all();
  while (block != nullptr) {
    Block* next = block->next;
    bins.count_in(block);
    if (block->uses.load(std::memory_order_acquire) != nullptr)
      pool_.inbox().push(block);
    else
      bins.push(block, pool_.sizes().of(block->bytes).index);
    block = next;
  }
}

// The bins are never lent again, so what comes back goes home through the pool's inbox. Where the stream lives on, as behind a
// capture, it may have been used there since.
void Cache::drain_closed() noexcept {
  Block* block = remote_.take_all();
  while (block != nullptr) {
    Block* next = block->next;
    if (is_captured_) pool_.use(*block, *line_, block->need);
    pool_.inbox().push(block);
    block = next;
  }
}

// The last buffer of an ended stream is back: lets the device go, and perhaps this cache with it.
void Cache::leave() noexcept {
  const std::shared_ptr<detail::DeviceState> device = std::move(device_);
  dead_.store(true, std::memory_order_release);
}

void Cache::retire(std::shared_ptr<detail::DeviceState> device) noexcept {
  pool_.withdraw(*this);
  device_ = std::move(device);
  closed_.store(true, std::memory_order_seq_cst);
  drain_closed();
  // Until here the count only fell, once for each block that came back the slow way; now it is what is still out.
  const uint64_t owed = bins_.owed;
  if (outstanding_.fetch_add(owed, std::memory_order_acq_rel) + owed == 0) leave();
}

}  // namespace tenon::runtime
