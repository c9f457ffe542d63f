// SPDX-License-Identifier: Apache-2.0
// capture.hpp: a capture in progress, shared by the streams in it, and what comes out of it.
//
// Values recorded in a capture are events of the graph, not of the device: they are kept here and end with the capture.
// Invariant: what a captured launch needs lives as long as what was captured.
#pragma once

#include "fate.hpp"
#include "gpu.hpp"

#include <map>

namespace tenon::cuda {

class Capturing {
 public:
  explicit Capturing(CUstream first) : first_(first) {}

  bool led_by(CUstream stream) const noexcept { return first_ == stream; }
  bool over() const noexcept { return over_.load(std::memory_order_acquire); }
  // `value` of `member` is recorded here. [member's thread]
  void mark(CUstream member, uint64_t value, EventRef event);
  // The event of the first value ≥ `value` that `member` recorded here; none when there is none. [any-thread]
  EventRef find(CUstream member, uint64_t value) const;
  // Keeps `owner` for the life of what is captured. [any-thread]
  void keep(std::shared_ptr<const void> owner);
  // From here on what is captured fails with `fate`: it is not replayed any more. [any-thread]
  void share(std::shared_ptr<const Fate> fate);
  // What has to be kept for what was captured, and what may spoil it.
  struct Kept {
    std::vector<std::shared_ptr<const void>> owners{};
    std::vector<std::shared_ptr<const Fate>> fates{};
  };
  // Ends it. [first stream's thread]
  Kept finish();

 private:
  const CUstream first_;
  std::atomic<bool> over_{false};
  mutable std::mutex mutex_;
  std::map<std::pair<CUstream, uint64_t>, EventRef> marks_{};
  Kept kept_{};
};

// An executable graph. The driver lets a replay in flight finish when it is destroyed.
class Captured {
 public:
  // Instantiates `graph` and destroys it, whatever comes of it. The context is current.
  static Result<std::unique_ptr<Captured>> make(std::shared_ptr<Gpu> gpu, CUgraph graph,
                                                Capturing::Kept kept);
  Captured(const Captured&) = delete;
  Captured& operator=(const Captured&) = delete;
  ~Captured();

  CUgraphExec native() const noexcept { return native_; }
  // Why it cannot be replayed any more. [any-thread; does not block; may fail]
  Status failure() const;

 private:
  explicit Captured(std::shared_ptr<Gpu> gpu) : gpu_(std::move(gpu)) {}

  std::shared_ptr<Gpu> gpu_;
  CUgraphExec native_ = nullptr;
  Capturing::Kept kept_{};
};

}  // namespace tenon::cuda
