// SPDX-License-Identifier: Apache-2.0
// buffer.cpp: the user's side of a block.
#include <tenon/buffer.hpp>

#include "runtime/pool/pool.hpp"

namespace tenon {
namespace {

runtime::Block& block_of(detail::Block& block) noexcept { return static_cast<runtime::Block&>(block); }

}  // namespace

void detail::release_block(Block* block) noexcept {
  runtime::Block& mine = block_of(*block);
  runtime::Cache& cache = *mine.cache;
  if (const auto* notes = cache.pool().notes()) [[unlikely]]
    notes->released(notes->context, block->memory, block->offset, mine.asked.load(std::memory_order_relaxed));
  cache.give(&mine);
}

Result<tn_span> Buffer::slice(uint64_t offset, uint64_t bytes) const {
  if (offset > bytes_ || bytes > bytes_ - offset)
    return Status(TN_INVALID, "a slice of " + std::to_string(bytes) + " bytes at " + std::to_string(offset) +
                                  " does not lie inside a buffer of " + std::to_string(bytes_) + " bytes");
  tn_span part = span();
  part.offset += offset;
  part.bytes = bytes;
  return part;
}

Result<uint64_t> Buffer::address() const {
  if (block_ == nullptr) return uint64_t{0};
  uint64_t address = 0;
  tn_error error = no_error();
  TN_TRY(status_of(block_of(*block_).cache->pool().plugin().device->address(block_->memory, &address, &error),
                   error));
  return address + block_->offset;
}

Status Buffer::used_on(Stream& stream) {
  if (block_ == nullptr) return {};
  runtime::Block& block = block_of(*block_);
  if (&block.cache->line() == stream.state()) return {};
  const uint64_t value = TN_TRY(stream.record_value());
  block.cache->pool().use(block, runtime::timeline_of(stream), 2 * value);
  return {};
}

}  // namespace tenon
