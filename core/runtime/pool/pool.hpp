// SPDX-License-Identifier: Apache-2.0
// pool.hpp: the memory of one device and kind, cached in the order of its streams.
//
// Invariant: a block goes to another stream only when its owner reached a value recorded after its release, and every
// stream that used it reached its use. `mutex_` comes before the loan of a cache; the plugin is called under it, but
// never to wait for a stream, and a release never takes it.
#pragma once

#include "layers/pool_notes.hpp"
#include "runtime/pool/cache.hpp"
#include "runtime/pool/central.hpp"

#include <tenon/plugin.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace tenon::runtime {

class Pool {
 public:
  struct Source {
    const tn_plugin* plugin = nullptr;
    tn_device* device = nullptr;
    uint32_t kind = TN_MEMORY_DEVICE;
    std::string name{};                      // of the device, for messages
    uint64_t granule = TN_MEMORY_ALIGNMENT;  // a power of two: what every block is aligned to
    uint64_t limit = UINT64_MAX;             // bytes that may be reserved
  };

  explicit Pool(Source source);
  // Waits for the last uses on streams of other devices. No Buffer is out.
  ~Pool();

  // The cache of `line`, made when first asked for. [any-thread; may block; cannot fail]
  Cache& cache_of(Timeline& line);
  // A block for `asked` bytes, which is not 0. [any-thread; may block; may fail]
  Result<Block*> allocate(Cache& cache, uint64_t asked);
  // Notes that `line` uses `block` until it reaches `need`. [any-thread; does not block; cannot fail]
  void use(Block& block, Timeline& line, uint64_t need);
  // The same for all blocks of `cache`, and all that `line` has enqueued. [any-thread; may block; cannot fail]
  void use_all(const Cache& cache, Timeline& line);
  // Takes the bins of a stream that has ended. [one thread; may block; cannot fail]
  void withdraw(Cache& cache) noexcept;

  PoolStats stats();
  // Gives free segments back until at most `keep` free bytes stay; returns how many stay.
  uint64_t trim(uint64_t keep);
  bool owns(const tn_memory* memory) const;

  // Where the layers want to know who has which part. [any-thread; does not block; cannot fail]
  const layers::PoolNotes* notes() const noexcept { return notes_; }
  const tn_plugin& plugin() const noexcept { return *source_.plugin; }
  const Sizes& sizes() const noexcept { return sizes_; }
  BlockStack& inbox() noexcept { return inbox_; }

 private:
  struct Fence {
    Hold line;
    uint64_t value;
  };

  // All below: under mutex_.
  void sort_inbox();
  void go_home(Block* block);
  static bool has_ended(const Use& use) noexcept;
  bool uses_ended(Block& block);
  void bury();
  Block* find(Cache& cache, SizeClass size);
  Block* hand_out(Cache& cache, Block* block, uint64_t asked);
  Status grow(SizeClass size);
  Status grow_by(uint64_t bytes, bool small);
  void flush(Cache& cache, const Deadline& deadline);
  void flush_all(const Deadline& deadline);
  uint64_t free_total();
  uint64_t release_free(uint64_t keep);
  void sample_peak();
  std::vector<Fence> fences();
  std::string unrecorded();
  std::string captured();
  Status out_of_memory(Cache& cache, uint64_t asked, const Status& cause);
  template <class Visit>
  void with_bins(Cache& cache, Visit visit);

  // Without it.
  void await_work();

  Source source_;
  Sizes sizes_;
  const layers::PoolNotes* notes_ = nullptr;
  BlockStack inbox_;
  mutable std::mutex mutex_;
  Central central_;
  std::vector<std::unique_ptr<Cache>> caches_;
  Block* waiting_ = nullptr;  // released, and still in use on other streams
  uint64_t reserved_ = 0, peak_reserved_ = 0, peak_used_ = 0;
  uint64_t device_allocations_ = 0, trims_ = 0, past_allocations_ = 0;

  std::mutex uses_mutex_;  // innermost
  Slab<Use> uses_;
};

template <class Visit>
void Pool::with_bins(Cache& cache, Visit visit) {
  if (cache.withdrawn_) return visit(cache.bins_);
  Bins* bins = cache.insist();
  visit(*bins);
  cache.hand_back(bins);
}

}  // namespace tenon::runtime
