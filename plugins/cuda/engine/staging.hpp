// SPDX-License-Identifier: Apache-2.0
// staging.hpp: how bytes of ordinary host memory get to a device without the driver waiting for the stream.
//
// The driver's own copy from pageable memory waits for all earlier work of its stream, which may be waiting for the very
// thread that called. Here the bytes go through pinned chunks: copied in at once, sent on when the stream comes to it. Small
// copies share a chunk, so that 2,048 calls or 8 MiB, whichever comes first, are on their way before one blocks.
// Invariant: a chunk is written again from its beginning only after every copy that reads it has finished.
#pragma once

#include "storage.hpp"

#include <condition_variable>
#include <deque>

namespace tenon::cuda {

class Staging {
 public:
  explicit Staging(std::shared_ptr<Context> context) : context_(std::move(context)) {}
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  // Enqueues the copy; `source` has been read when this returns. Blocks while all chunks are full and on their way. The
  // context is current. [stream's thread; may block; may fail]
  Status upload(CUstream stream, CUdeviceptr to, const std::byte* source, uint64_t bytes);

 private:
  static constexpr uint64_t chunk_bytes = 1 << 20, grain = 4096;  // a copy takes whole grains
  static constexpr size_t most = 8;

  struct Chunk {
    std::unique_ptr<Storage> storage;
    uint64_t used = 0;               // from its beginning
    std::deque<EventRef> readers{};  // what still reads it, in the order of the calls
    CUdeviceptr end() const noexcept { return storage->address() + used; }
  };
  // A chunk with so much room, off the shelf. [any-thread; blocks; may fail]
  Result<Chunk> take(uint64_t bytes);
  void put_back(Chunk chunk);
  bool has_room(Chunk& chunk, uint64_t bytes) const;
  Status await(Chunk& chunk) const;

  std::shared_ptr<Context> context_;
  std::mutex mutex_;
  std::condition_variable returned_{};
  std::deque<Chunk> shelf_{};  // the one used longest ago first
  size_t made_ = 0;
};

}  // namespace tenon::cuda
