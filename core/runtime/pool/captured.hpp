// SPDX-License-Identifier: Apache-2.0
// captured.hpp: CapturedMemory, what work allocates while its stream captures.
//
// A replay writes again wherever the captured work wrote, long after the Buffers of that work were dropped. So while a stream
// captures it has caches of its own: what is dropped may be had again by the same work, in its order, and by nobody else until
// the capture has ended.
// Invariant: a block of a capture goes to others only when the capture has ended and every stream it was replayed on has got
// past its last replay.
#pragma once

#include "runtime/pool/cache.hpp"

#include <array>
#include <atomic>

namespace tenon::runtime {

class CapturedMemory {
 public:
  explicit CapturedMemory(std::shared_ptr<detail::DeviceState> device) : device_(std::move(device)) {}
  CapturedMemory(const CapturedMemory&) = delete;
  CapturedMemory& operator=(const CapturedMemory&) = delete;
  // No replay comes any more: gives the memory back, behind those that are on their way.
  ~CapturedMemory();

  // While it lives allocations in the order of `line` are the capture's.
  class Collecting {
   public:
    Collecting(CapturedMemory& memory, Timeline& line) noexcept;
    Collecting(const Collecting&) = delete;
    Collecting& operator=(const Collecting&) = delete;
    ~Collecting();

   private:
    CapturedMemory& memory_;
    Timeline& line_;
    std::array<Cache*, 3> before_{};
  };

  // A replay is enqueued on `line`. Allocates at the first on each stream, and where there is memory to keep.
  // [line's thread; does not block; cannot fail]
  void replayed(Timeline& line) {
    if (caches_ != std::array<Cache*, 3>{}) note(line);
  }

 private:
  struct Replay {
    Hold line;
    Replay* next;
  };
  void note(Timeline& line);

  std::shared_ptr<detail::DeviceState> device_;
  std::array<Cache*, 3> caches_{};         // by memory kind, as in Timeline
  std::atomic<Replay*> replays_{nullptr};  // the streams, each once or a few times
};

}  // namespace tenon::runtime
