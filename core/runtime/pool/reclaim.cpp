// SPDX-License-Identifier: Apache-2.0
// reclaim.cpp: how memory leaves the caches of streams: for other streams, for the device, before out-of-memory.
//
// Invariant: a block leaves its stream's cache only when the stream reached what the block needs.
#include "runtime/pool/pool.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

namespace tenon::runtime {
namespace {

// An allocation that found no memory waits this long for work in flight before it fails: longer than any step, and an
// error is better than a process that stands still.
constexpr Timeout patience = std::chrono::seconds(30);

std::string amount(uint64_t bytes) {
  std::array<char, 32> text{};
  const auto value = static_cast<double>(bytes);
  if (bytes >= 1ull << 30)
    std::snprintf(text.data(), text.size(), "%.2f GiB", value / (1ull << 30));
  else if (bytes >= 1ull << 20)
    std::snprintf(text.data(), text.size(), "%.2f MiB", value / (1ull << 20));
  else
    std::snprintf(text.data(), text.size(), "%llu bytes", static_cast<unsigned long long>(bytes));
  return text.data();
}

// Takes from the bins every block that `leaves` is true for.
template <class Leaves, class Take>
void extract(Bins& bins, Leaves leaves, Take take) {
  for (Block*& head : bins.heads)
    for (Block** at = &head; *at != nullptr;) {
      Block* block = *at;
      if (!leaves(*block)) {
        at = &block->next;
        continue;
      }
      *at = block->next;
      take(block);
    }
}

}  // namespace

void Pool::flush(Cache& cache, const Deadline& deadline) {
  uint64_t ended = 0;  // one question for many blocks: the greatest value that is known to be reached
  const auto leaves = [&](const Block& block) {
    const std::optional<uint64_t> fence = fence_of(block.need, cache.line());
    if (fence && *fence > ended && finished(cache.line(), *fence, deadline)) ended = *fence;
    return fence && *fence <= ended;
  };
  with_bins(cache, [&](Bins& bins) {
    cache.drain(bins);
    extract(bins, leaves, [&](Block* block) { central_.give(block); });
  });
}

void Pool::flush_all(const Deadline& deadline) {
  for (const auto& cache : caches_)
    if (!cache->withdrawn_ && !cache->is_captured()) flush(*cache, deadline);
}

uint64_t Pool::release_free(uint64_t keep) {
  uint64_t free = free_total();
  while (free > keep) {
    const Segment segment = central_.remove_free();
    if (segment.bytes == 0) break;
    source_.plugin->device->free(segment.memory, nullptr);
    reserved_ -= segment.bytes;
    free -= segment.bytes;
  }
  return free;
}

// Bytes reserved and in no Buffer.
uint64_t Pool::free_total() {
  uint64_t rounded = 0;
  for (const auto& cache : caches_) with_bins(*cache, [&](const Bins& bins) { rounded += bins.rounded; });
  return reserved_ - std::min(rounded, reserved_);
}

uint64_t Pool::trim(uint64_t keep) {
  const std::lock_guard lock(mutex_);
  ++trims_;
  sort_inbox();
  flush_all(Deadline::glance());  // what a look misses, the next one finds
  return release_free(keep);
}

// The true peak lies between two samples at most where each cache peaked; adding those up is exact for one stream.
void Pool::sample_peak() {
  uint64_t sum = 0;
  for (const auto& cache : caches_)
    with_bins(*cache, [&](Bins& bins) {
      sum += bins.peak_used;
      bins.peak_used = bins.used;
    });
  peak_used_ = std::max(peak_used_, std::min(sum, peak_reserved_));
}

PoolStats Pool::stats() {
  const std::lock_guard lock(mutex_);
  sort_inbox();
  for (const auto& cache : caches_)
    if (!cache->withdrawn_) with_bins(*cache, [&](Bins& bins) { cache->drain(bins); });
  bury();
  sample_peak();
  PoolStats stats{.reserved_bytes = reserved_,
                  .peak_used_bytes = peak_used_,
                  .peak_reserved_bytes = peak_reserved_,
                  .largest_free_bytes = central_.largest_free(),
                  .allocations = past_allocations_,
                  .device_allocations = device_allocations_,
                  .trims = trims_};
  for (const auto& cache : caches_)
    with_bins(*cache, [&](const Bins& bins) {
      stats.used_bytes += bins.used;
      stats.rounded_bytes += bins.rounded;
      stats.allocations += bins.allocations;
    });
  const uint64_t free = reserved_ - std::min(stats.rounded_bytes, reserved_);
  if (free != 0)
    stats.fragmentation = 1 - static_cast<double>(stats.largest_free_bytes) / static_cast<double>(free);
  return stats;
}

// What must be reached for all released blocks to be free.
std::vector<Pool::Fence> Pool::fences() {
  std::vector<Fence> list;
  const auto add = [&](Timeline& line, uint64_t value) {
    for (Fence& fence : list)
      if (fence.line.get() == &line) {
        fence.value = std::max(fence.value, value);
        return;
      }
    list.push_back({Hold(&line), value});
  };
  for (const auto& cache : caches_) {
    if (cache->is_captured()) continue;
    with_bins(*cache, [&](const Bins& bins) {
      bins.each([&](const Block& block) {
        if (const auto fence = fence_of(block.need, cache->line())) add(cache->line(), *fence);
      });
    });
  }
  for (const Block* block = waiting_; block != nullptr; block = block->next)
    for (const Use* use = block->uses.load(); use != nullptr; use = use->next)
      if (const auto fence = fence_of(use->need.load(std::memory_order_relaxed), *use->line))
        add(*use->line, *fence);
  return list;
}

// Waits for the work that released blocks may still be in.
void Pool::await_work() {
  std::unique_lock lock(mutex_);
  const std::vector<Fence> list = fences();
  lock.unlock();
  const Deadline deadline = Deadline::after(patience);
  for (const Fence& fence : list) finished(*fence.line, fence.value, deadline);
}

// What no wait can free: only a stream's own thread may record.
std::string Pool::unrecorded() {
  std::string text;
  for (const auto& cache : caches_) {
    if (cache->is_captured()) continue;
    uint64_t bytes = 0;
    with_bins(*cache, [&](const Bins& bins) {
      bins.each([&](const Block& block) { bytes += fence_of(block.need, cache->line()) ? 0 : block.bytes; });
    });
    if (bytes != 0)
      text += "; " + amount(bytes) + " were released on stream '" + cache->line().name +
              "' and are free for others once it records or is synchronised";
  }
  return text;
}

// What captures keep for their replays.
std::string Pool::captured() {
  uint64_t bytes = 0;
  for (const auto& cache : caches_) {
    if (!cache->is_captured()) continue;
    with_bins(*cache,
              [&](const Bins& bins) { bins.each([&](const Block& block) { bytes += block.bytes; }); });
  }
  return bytes == 0
             ? ""
             : "; " + amount(bytes) + " belong to captures, and are free for others once those are dropped";
}

Status Pool::out_of_memory(Cache& cache, uint64_t asked, const Status& cause) {
  tn_memory_info info{.size = sizeof(tn_memory_info)};
  const bool known = source_.plugin->device->memory_info(source_.device, &info, nullptr) == TN_OK;
  uint64_t used = 0;
  for (const auto& each : caches_) with_bins(*each, [&](const Bins& bins) { used += bins.used; });
  std::string text = "device '" + source_.name + "' has no memory for " + amount(asked) + " on stream '" +
                     cache.line().name + "': buffers hold " + amount(used) + " of " + amount(reserved_) +
                     " reserved, the largest free piece is " + amount(central_.largest_free());
  if (known) text += ", the device has " + amount(info.free_bytes) + " free";
  if (source_.limit != UINT64_MAX)
    text += ", the pool may reserve " + amount(source_.limit) + " (pool.reserve_fraction)";
  text += unrecorded() + captured() +
          ". Drop buffers, or free what others hold. The device said: " + std::string(cause.message());
  Error error = cause.error();
  error.code = TN_NO_MEMORY;
  error.message = std::move(text);
  return Status(std::move(error));
}

}  // namespace tenon::runtime
