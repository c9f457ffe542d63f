// SPDX-License-Identifier: Apache-2.0
// captured.cpp: caches that a stream has while it captures, and their way back.
#include "runtime/pool/captured.hpp"

#include "runtime/pool/pool.hpp"

#include <utility>

namespace tenon::runtime {

CapturedMemory::Collecting::Collecting(CapturedMemory& memory, Timeline& line) noexcept
    : memory_(memory), line_(line) {
  line.collects.store(true, std::memory_order_seq_cst);
  for (size_t kind = 0; kind < before_.size(); ++kind)
    before_[kind] = line.caches[kind].exchange(nullptr, std::memory_order_acq_rel);
}

CapturedMemory::Collecting::~Collecting() {
  line_.collects.store(false, std::memory_order_seq_cst);
  for (size_t kind = 0; kind < before_.size(); ++kind)
    memory_.caches_[kind] = line_.caches[kind].exchange(before_[kind], std::memory_order_acq_rel);
}

void CapturedMemory::note(Timeline& line) {
  Replay* head = replays_.load(std::memory_order_acquire);
  for (const Replay* replay = head; replay != nullptr; replay = replay->next)
    if (replay->line.get() == &line) return;
  auto* const fresh = new Replay{Hold(&line), head};
  while (!replays_.compare_exchange_weak(fresh->next, fresh, std::memory_order_acq_rel)) {
  }
}

CapturedMemory::~CapturedMemory() {
  Replay* replays = replays_.exchange(nullptr, std::memory_order_acquire);
  for (Cache* const cache : caches_) {
    if (cache == nullptr) continue;
    cache->pool().use_all(*cache, cache->line());  // where what outlived the work was used
    for (const Replay* replay = replays; replay != nullptr; replay = replay->next)
      cache->pool().use_all(*cache, *replay->line);
    cache->retire(device_);
  }
  while (replays != nullptr) delete std::exchange(replays, replays->next);
}

}  // namespace tenon::runtime
