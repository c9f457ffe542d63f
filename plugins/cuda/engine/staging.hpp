// SPDX-License-Identifier: Apache-2.0
// staging.hpp: how bytes of ordinary host memory get to a device without the driver waiting for the stream.
//
// The driver's own copy from pageable memory waits for all earlier work of its stream, which may be waiting for the very
// thread that called. Here the bytes go through pinned chunks: copied in at once, sent on when the stream comes to it.
// Invariant: a chunk is written again only after the copy that reads it has finished.
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

  // Enqueues the copy; `source` has been read when this returns. Blocks while all chunks are on their way. The context
  // is current. [stream's thread; may block; may fail]
  Status upload(CUstream stream, CUdeviceptr to, const std::byte* source, uint64_t bytes);

 private:
  static constexpr uint64_t chunk_bytes = 1 << 20;
  static constexpr size_t most = 8;

  struct Chunk {
    std::unique_ptr<Storage> storage;
    EventRef sent{};
    std::byte* data() const noexcept {
      return reinterpret_cast<std::byte*>(static_cast<uintptr_t>(storage->address()));
    }
  };
  Result<Chunk> take();
  bool is_free(const Chunk& chunk) const;

  std::shared_ptr<Context> context_;
  std::mutex mutex_;
  std::condition_variable returned_{};
  std::deque<Chunk> shelf_{};  // the one used longest ago first
  size_t made_ = 0;
};

}  // namespace tenon::cuda
