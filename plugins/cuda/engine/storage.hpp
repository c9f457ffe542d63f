// SPDX-License-Identifier: Apache-2.0
// storage.hpp: bytes on the device or pinned on the host, and who gives them back.
//
// Device memory is an address range with physical pages mapped into it, not a cuMemAlloc: pages can be shared with other
// processes, registered with a communicator, and opened to peers. Pages are large (2 MiB), so small requests share them.
// Invariant: a failed request leaves nothing behind, and tells how much was asked for and how much is there.
#pragma once

#include "context.hpp"

#include <map>

namespace tenon::cuda {

// One block; its end gives it back. The context is made current where needed.
class Storage {
 public:
  Storage() = default;
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;
  virtual ~Storage() = default;
  virtual CUdeviceptr address() const noexcept = 0;
  // Bytes of device pages from the address on that nobody else has a part of; 0 where they are shared, or the host's.
  virtual uint64_t pages() const noexcept { return 0; }
};

// Whole pages of their own. [any-thread; may block; may fail]
Result<std::unique_ptr<Storage>> map_pages(std::shared_ptr<Context> context, uint64_t bytes,
                                           uint64_t alignment);

// Page-locked memory of the host, reachable from every device at the address it has on the host.
// [any-thread; may block; may fail]
Result<std::unique_ptr<Storage>> pin_host(std::shared_ptr<Context> context, uint64_t bytes,
                                          uint64_t alignment);

// Small blocks that share pages: powers of two, each page cut into one size.
class Slabs {
 public:
  static constexpr uint64_t largest = 512 << 10;

  explicit Slabs(std::shared_ptr<Context> context) : context_(std::move(context)) {}
  Slabs(const Slabs&) = delete;
  Slabs& operator=(const Slabs&) = delete;

  // bytes ≤ largest; the block is aligned to its size rounded up. It keeps this alive.
  // [any-thread; may block; may fail]
  static Result<std::unique_ptr<Storage>> take(const std::shared_ptr<Slabs>& slabs, uint64_t bytes);

 private:
  class Piece;
  struct Slab {
    std::unique_ptr<Storage> pages;
    uint64_t piece = 0;
    std::vector<CUdeviceptr> free{};
    uint64_t taken = 0;
  };

  Result<std::pair<Slab*, CUdeviceptr>> cut(uint64_t piece);
  void give_back(Slab& slab, CUdeviceptr address) noexcept;

  std::shared_ptr<Context> context_;
  std::mutex mutex_;
  std::multimap<uint64_t, Slab> slabs_{};  // by size of the piece
};

}  // namespace tenon::cuda
