// SPDX-License-Identifier: Apache-2.0
// arena.hpp: the memory of one device: blocks of one range of pages, and which of them the host may touch.
//
// Invariant: blocks never overlap, every byte outside a live block belongs to nobody, and a block that is handed out is
// full of garbage: memory of a device is never zero by itself.
#pragma once

#include "driver.hpp"

#include <map>
#include <memory>
#include <mutex>

namespace tenon::sim {

class Arena {
 public:
  // [any-thread; may block; may fail]
  static Result<std::unique_ptr<Arena>> make(uint64_t bytes);

  struct Block {
    uint64_t offset = 0;
    uint64_t bytes = 0;  // as asked for
    uint64_t room = 0;   // rounded up
    bool exposed = false;
  };
  // A block of at least `bytes` whose address is a multiple of `alignment`; the host may touch an exposed one.
  // TN_NO_MEMORY with the figures. [any-thread; may block; may fail]
  Result<Block> take(uint64_t bytes, uint64_t alignment, bool exposed);
  void give_back(const Block& block) noexcept;
  // Overwrites what the device finds at `at`, as someone does who was told that it is his: with garbage at both
  // ends; of much the pages in between read as zero, with a mark here and there. [any-thread; may block; cannot fail]
  void scribble(std::byte* at, uint64_t bytes, std::byte garbage) const noexcept;

  // Where the device finds a byte, and what the host is told. [any-thread; does not block; cannot fail]
  std::byte* inside(uint64_t offset) const noexcept { return pages_.inside() + offset; }
  uint64_t address(uint64_t offset) const noexcept;
  // Whether any byte of the range is an address of this arena that the host may not touch.
  bool forbids(uint64_t address, uint64_t bytes) const;
  // Where the device finds [address, address + bytes), or nullptr when it leaves its block.
  std::byte* find(uint64_t address, uint64_t bytes) const;

  uint64_t total() const noexcept { return pages_.bytes(); }
  uint64_t used() const;

 private:
  explicit Arena(driver::TwinPages pages) : pages_(std::move(pages)) { free_[0] = pages_.bytes(); }
  // The first gap that holds `bytes` at a good address, as the block's offset.
  std::map<uint64_t, uint64_t>::iterator gap_for(uint64_t bytes, uint64_t alignment, uint64_t& offset);
  Status full(uint64_t bytes) const;

  driver::TwinPages pages_;
  mutable std::mutex mutex_;             // of all below
  std::map<uint64_t, uint64_t> free_{};  // offset → bytes
  std::map<uint64_t, Block> blocks_{};   // by offset
  uint64_t used_ = 0;
};

}  // namespace tenon::sim
