// SPDX-License-Identifier: Apache-2.0
// storage.hpp: bytes on the device or pinned on the host, and who gives them back.
//
// Device memory is an address range with physical pages mapped into it, not a cuMemAlloc: pages can be shared with other
// processes, registered with a communicator, and opened to peers. Pages are large (2 MiB), so small requests share them.
// Pages that another process was given are cut no further, and a piece of them that ends is not given out again: who has them open
// finds in them what was there at the time, and nothing that came later.
// Invariant: a failed request leaves nothing behind, and tells how much was asked for and how much is there.
#pragma once

#include "context.hpp"
#include "descriptor.hpp"

#include <map>

namespace tenon::cuda {

// What another process is given to have a block: the pages that it lies in, and where. Whoever has them open keeps them, though the
// block has ended here.
struct Share {
  std::shared_ptr<const Fd> pages{};
  uint64_t page_bytes = 0, offset = 0;
};

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
  // TN_UNSUPPORTED for what no other process can have. [any-thread; may block; may fail]
  virtual Result<Share> share() = 0;
  // Nothing on its way uses it any more: it may be handed out again, where giving it back would take long.
  // [owner's thread; does not block; cannot fail]
  virtual void mark_unused() noexcept {}
};

// Whole pages of their own. [any-thread; may block; may fail]
Result<std::unique_ptr<Storage>> map_pages(std::shared_ptr<Context> context, uint64_t bytes,
                                           uint64_t alignment);

// A block of another process, in pages of `page_bytes` that it shares. They are counted there, not here.
// [any-thread; may block; may fail]
Result<std::unique_ptr<Storage>> open_pages(std::shared_ptr<Context> context, const Fd& pages,
                                            uint64_t page_bytes, uint64_t offset);

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
    bool shared = false;  // another process was given its pages
  };

  Result<std::pair<Slab*, CUdeviceptr>> cut(uint64_t piece);
  void give_back(Slab& slab, CUdeviceptr address) noexcept;
  Result<Share> share(Slab& slab, CUdeviceptr address);

  std::shared_ptr<Context> context_;
  std::mutex mutex_;
  std::multimap<uint64_t, Slab> slabs_{};  // by size of the piece
};

}  // namespace tenon::cuda
