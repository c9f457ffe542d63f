// SPDX-License-Identifier: Apache-2.0
// pool.cpp: allocation off the fast path, and the way of released blocks back.
#include "runtime/pool/pool.hpp"

#include <algorithm>

namespace tenon::runtime {

Pool::Pool(Source source) : source_(std::move(source)), sizes_(source_.granule) {
  const tn_plugin& plugin = *source_.plugin;
  notes_ = static_cast<const layers::PoolNotes*>(plugin.extension(&plugin, layers::pool_notes_id));
}

Pool::~Pool() {
  for (Block* block = inbox_.take_all(); block != nullptr;) {
    Block* next = block->next;
    block->next = waiting_;
    waiting_ = block;
    block = next;
  }
  for (Block* block = waiting_; block != nullptr; block = block->next)
    for (Use* use = block->uses.load(); use != nullptr; use = use->next)
      if (const auto fence = fence_of(use->need.load(), *use->line))
        finished(*use->line, *fence, Deadline::never());
  for (Segment segment = central_.remove_any(); segment.bytes != 0; segment = central_.remove_any())
    source_.plugin->device->free(segment.memory, nullptr);
}

Cache& Pool::cache_of(Timeline& line) {
  const std::lock_guard lock(mutex_);
  std::atomic<Cache*>& slot = line.caches[source_.kind];
  if (Cache* made = slot.load(std::memory_order_acquire)) return *made;
  caches_.push_back(std::make_unique<Cache>(*this, line));
  slot.store(caches_.back().get(), std::memory_order_release);
  return *caches_.back();
}

bool Pool::owns(const tn_memory* memory) const {
  const std::lock_guard lock(mutex_);
  return central_.owns(memory);
}

void Pool::use(Block& block, Timeline& line, uint64_t need) {
  const std::lock_guard lock(uses_mutex_);
  for (Use* use = block.uses.load(std::memory_order_relaxed); use != nullptr; use = use->next) {
    if (use->line.get() != &line) continue;
    use->need.store(std::max(need, use->need.load(std::memory_order_relaxed)), std::memory_order_relaxed);
    return;
  }
  Use* use = uses_.make();
  use->line = Hold(&line);
  use->need.store(need, std::memory_order_relaxed);
  use->next = block.uses.load(std::memory_order_relaxed);
  block.uses.store(use, std::memory_order_release);
}

void Pool::use_all(const Cache& cache, Timeline& line) {
  const std::lock_guard lock(mutex_);
  const uint64_t need = need_of(line);
  central_.each([&](Block& block) {
    if (block.cache == &cache) use(block, line, need);
  });
}

// A stream that has ended records no more, and has reached everything.
bool Pool::has_ended(const Use& use) noexcept {
  const auto fence = fence_of(use.need.load(std::memory_order_relaxed), *use.line);
  return fence ? finished(*use.line, *fence, Deadline::now())
               : use.line->phase.load(std::memory_order_acquire) == Phase::closed;
}

// Forgets the uses of a released block once all have ended.
bool Pool::uses_ended(Block& block) {
  Use* first = block.uses.load(std::memory_order_acquire);
  for (Use* use = first; use != nullptr; use = use->next)
    if (!has_ended(*use)) return false;
  block.uses.store(nullptr, std::memory_order_relaxed);
  const std::lock_guard lock(uses_mutex_);
  while (first != nullptr) {
    Use* use = std::exchange(first, first->next);
    use->line = Hold();
    uses_.give(use);
  }
  return true;
}

// A released block that nobody else uses: back to its stream, or to all once the stream has ended.
void Pool::go_home(Block* block) {
  Cache* cache = block->cache;
  if (cache == nullptr || cache->withdrawn_) return central_.give(block);
  with_bins(*cache, [&](Bins& bins) { bins.push(block, sizes_.of(block->bytes).index); });
}

void Pool::sort_inbox() {
  bury();
  Block* list = std::exchange(waiting_, nullptr);
  while (list != nullptr) {
    Block* block = std::exchange(list, list->next);
    if (uses_ended(*block)) {
      go_home(block);
    } else {
      block->next = waiting_;
      waiting_ = block;
    }
  }
}

// Empties the inbox into the waiting list, and ends the caches whose last buffer came back. Whoever declares a cache dead
// has put its blocks into the inbox before, so the inbox is looked at second.
void Pool::bury() {
  const auto dead = std::partition(caches_.begin(), caches_.end(), [](const std::unique_ptr<Cache>& cache) {
    return !cache->dead_.load(std::memory_order_acquire);
  });
  for (Block* block = inbox_.take_all(); block != nullptr;) {
    Block* next = block->next;
    if (block->asked.load(std::memory_order_relaxed) != 0) block->cache->bins_.count_in(block);
    block->next = waiting_;
    waiting_ = block;
    block = next;
  }
  if (dead == caches_.end()) return;
  for (Block* block = waiting_; block != nullptr; block = block->next)
    if (block->cache != nullptr && block->cache->withdrawn_) block->cache = nullptr;
  for (auto cache = dead; cache != caches_.end(); ++cache) past_allocations_ += (*cache)->bins_.allocations;
  caches_.erase(dead, caches_.end());
}

Block* Pool::find(Cache& cache, SizeClass size) {
  Block* block = nullptr;
  with_bins(cache, [&](Bins& bins) {
    cache.drain(bins);
    block = bins.pop(size);
  });
  return block != nullptr ? block : central_.take(size.bytes, size.bytes <= small_limit);
}

Block* Pool::hand_out(Cache& cache, Block* block, uint64_t asked) {
  block->cache = &cache;
  with_bins(cache, [&](Bins& bins) { bins.count_out(block, asked); });
  return block;
}

Status Pool::grow_by(uint64_t bytes, bool small) {
  if (bytes > source_.limit || reserved_ > source_.limit - bytes)
    return Status(TN_NO_MEMORY, "pool.reserve_fraction allows no more");
  tn_memory* memory = nullptr;
  tn_error error = no_error();
  const int32_t code = source_.plugin->device->alloc(source_.device, source_.kind, bytes, 0, &memory, &error);
  if (code != TN_OK) return status_of(code, error);
  central_.adopt(memory, bytes, small);
  ++device_allocations_;
  reserved_ += bytes;
  peak_reserved_ = std::max(peak_reserved_, reserved_);
  return {};
}

// A new segment for at least one block of this class: whole pages, or just the block where pages do not fit any more.
Status Pool::grow(SizeClass size) {
  sample_peak();
  const bool small = size.bytes <= small_limit;
  const uint64_t pages = round_up(size.bytes, std::max(pool_page, source_.granule));
  Status status = grow_by(pages, small);
  if (status.code() == TN_NO_MEMORY && pages != size.bytes) status = grow_by(size.bytes, small);
  return status;
}

Result<Block*> Pool::allocate(Cache& cache, uint64_t asked) {
  if (asked > largest_request)
    return Status(TN_INVALID, "a buffer of " + std::to_string(asked) + " bytes on device '" + source_.name +
                                  "' is more than any device has: check how the size was computed");
  const SizeClass size = sizes_.of(asked);
  std::unique_lock lock(mutex_);
  sort_inbox();
  Status cause;
  const auto attempt = [&]() -> Block* {
    Block* block = find(cache, size);
    if (block == nullptr && (cause = grow(size)).ok()) block = find(cache, size);
    return block != nullptr ? hand_out(cache, block, asked) : nullptr;
  };
  if (Block* block = attempt()) return block;
  if (cause.code() != TN_NO_MEMORY) return cause;
  ++trims_;
  const auto again = [&]() -> Block* {
    sort_inbox();
    flush_all(Deadline::now());
    if (Block* block = find(cache, size)) return hand_out(cache, block, asked);
    release_free(0);
    return attempt();
  };
  if (Block* block = again()) return block;
  lock.unlock();
  await_work();
  lock.lock();
  if (Block* block = again()) return block;
  return cause.code() == TN_NO_MEMORY ? out_of_memory(cache, asked, cause) : std::move(cause);
}

void Pool::withdraw(Cache& cache) noexcept {
  const std::lock_guard lock(mutex_);
  sample_peak();
  Bins* bins = cache.insist();
  cache.withdrawn_ = true;
  cache.drain(*bins);
  for (Block*& head : bins->heads)
    while (head != nullptr) {
      Block* block = std::exchange(head, head->next);
      if (block->uses.load(std::memory_order_acquire) == nullptr)
        central_.give(block);
      else
        inbox_.push(block);
    }
}

}  // namespace tenon::runtime
