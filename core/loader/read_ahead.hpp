// SPDX-License-Identifier: Apache-2.0
// read_ahead.hpp: workers that fill batches ahead of whoever takes them; knows no device.
//
// A batch is filled in a numbered slot. A slot goes free → filling → filled → taken → free, and what is done at each change is
// the caller's. Batches are opened and taken in the order of steps; within one, workers take samples in small runs.
// Invariant: there are never more batches than slots, so reading ahead is bounded by their number; once made, nothing is
// allocated but by failures.
#pragma once

#include "loader/order.hpp"

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace tenon::loader {

// A batch that is in a slot.
struct Filled {
  uint32_t slot = 0;
  Cursor at{};
  Share share{};
};

// One sample and where it goes.
struct Place {
  uint32_t slot = 0;
  uint64_t place = 0;  // in the batch
  uint64_t sample = 0;
  uint64_t epoch = 0;
};

class ReadAhead {
 public:
  // What workers call, several at once but for `open`.
  struct Work {
    // Blocks until the slot may be written to; gives up, with any status, when `stopping` becomes true.
    std::function<Status(uint32_t slot, const std::atomic<bool>& stopping)> open;
    std::function<Status(const Place&)> read;
  };

  // `slots` are free; others up to the largest number may come back later. Starts no thread.
  ReadAhead(Order order, uint64_t batch, Cursor from, uint32_t all_slots, std::span<const uint32_t> free,
            Work work);
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;
  ~ReadAhead();

  // TN_NO_MEMORY when the system has no thread. [one thread; may block; may fail]
  Status start(uint32_t workers);
  // The next batch in order, once it is filled. The failure of `open` or of the first of its samples that has one, which
  // ends the reading; TN_ABORTED after `stop`. [one thread; blocks; may fail]
  Result<Filled> take();
  // [any-thread; may block for a moment; cannot fail]
  void give_back(uint32_t slot);
  // Wakes `take`, and waits for what `read` has under way. [one thread; blocks; cannot fail]
  void stop();

  // "batch 3 of epoch 0: 12 of 64 samples are read", for messages. [any-thread; may block for a moment; cannot fail]
  std::string progress() const;
  // In Work::read, all workers together. [any-thread; does not block; cannot fail]
  uint64_t read_ns() const noexcept { return read_ns_.load(std::memory_order_relaxed); }

 private:
  struct Filling {
    Cursor at{};
    Share share{};
    std::vector<uint64_t> samples{};
    uint64_t next = 0, left = 0;  // not yet begun from; not yet done
    Status status{};
    uint64_t failed = 0;  // the place that `status` is of
  };
  // Some samples of one batch.
  struct Run {
    uint32_t slot = 0;
    uint64_t begin = 0, end = 0;
  };

  void work();
  bool claim(Run& run);
  void open_next(std::unique_lock<std::mutex>& lock);
  void read_run(std::unique_lock<std::mutex>& lock, const Run& run);
  void fail(Filling& batch, uint64_t place, Status status);

  const Work work_;
  mutable std::mutex mutex_;
  std::condition_variable workers_wake_, taker_wakes_;
  Order order_;                         // used by the one worker that opens
  Cursor next_;                         // to be opened
  std::vector<Filling> batches_;        // by slot
  std::vector<uint32_t> free_, queue_;  // queue_: opened and not taken, in the order of steps
  bool opening_ = false, failed_ = false;
  std::atomic<bool> stopping_{false};
  std::atomic<uint64_t> read_ns_{0};
  std::vector<std::thread> threads_;
};

}  // namespace tenon::loader
