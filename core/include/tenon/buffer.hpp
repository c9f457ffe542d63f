// SPDX-License-Identifier: Apache-2.0
// buffer.hpp: Buffer, memory from a device's pool, and the pool's figures.
//
// Invariant: a Buffer belongs to one stream. Dropping it gives the memory back *in stream order*: the same stream may have
// it again at once, others after all recorded uses are reached. A use on another stream must be declared with `used_on`.
#pragma once

#include <tenon/base.h>
#include <tenon/export.hpp>
#include <tenon/result.hpp>
#include <tenon/stream.hpp>

#include <utility>

namespace tenon {

namespace detail {
// Where a buffer's bytes lie; the rest of a block is core/runtime/pool's.
struct Block {
  tn_memory* memory = nullptr;
  uint64_t offset = 0;
};
TN_API void release_block(Block* block) noexcept;
}  // namespace detail

// Memory on a device. Move-only.
class TN_API Buffer {
 public:
  Buffer() noexcept = default;
  Buffer(Buffer&& other) noexcept
      : block_(std::exchange(other.block_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(block_, other.block_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Buffer() {
    if (block_ != nullptr) detail::release_block(block_);
  }

  explicit operator bool() const noexcept { return block_ != nullptr; }
  uint64_t bytes() const noexcept { return bytes_; }
  // The bytes, ready for copies and bindings. [any-thread; does not block; cannot fail]
  tn_span span() const noexcept {
    if (block_ == nullptr) return tn_span{};
    return tn_span{block_->memory, block_->offset, bytes_, TN_SPACE_MEMORY, 0};
  }
  operator tn_span() const noexcept { return span(); }
  // A part. TN_INVALID when it does not lie inside. [any-thread; does not block; may fail]
  Result<tn_span> slice(uint64_t offset, uint64_t bytes) const;
  // The address of byte 0 on the device; on the host for host memory. TN_UNSUPPORTED without feature ADDRESSABLE.
  // [any-thread; does not block; may fail]
  Result<uint64_t> address() const;
  // Declares a use on another stream, up to all that is enqueued there now: the memory is not reused before. Several
  // threads may declare uses of one buffer at once. [the other stream's thread; may block, as record does; may fail]
  Status used_on(Stream& stream);

 private:
  friend class Device;
  Buffer(detail::Block* block, uint64_t bytes) noexcept : block_(block), bytes_(bytes) {}
  detail::Block* block_ = nullptr;
  uint64_t bytes_ = 0;
};

// The pool's figures for one kind of memory, exact while no other thread is inside the pool.
struct PoolStats {
  uint64_t used_bytes = 0;       // in Buffers, as asked for
  uint64_t rounded_bytes = 0;    // in Buffers, as handed out
  uint64_t reserved_bytes = 0;   // taken from the device
  uint64_t peak_used_bytes = 0;  // exact for one stream; with several, at most what their own peaks add up to
  uint64_t peak_reserved_bytes = 0;
  uint64_t largest_free_bytes = 0;  // in one piece, once the caches of the streams are joined
  double fragmentation = 0;         // the share of free bytes outside the largest piece: 1 - largest / free
  uint64_t allocations = 0;         // since the start, zero-byte ones left out
  uint64_t device_allocations = 0;  // how often the device was asked
  uint64_t trims = 0;               // by request, or before an out-of-memory retry
};

}  // namespace tenon
