// SPDX-License-Identifier: Apache-2.0
// memory.hpp: address ranges, pieces of device memory, what is mapped where, and pinned host memory.
//
// A device address is an address of this process, readable exactly while a piece is mapped there and access was granted;
// around every range lie pages that fault. A piece is poisoned when it is created: its floats read as NaN. Each is a file in memory
// of its own, so that another process can map it, and it lives until the last that has it lets go.
// Invariant: a call that would leave a mapping half gone is refused.
#pragma once

#include "handles.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

namespace fakecuda {

inline constexpr size_t granularity = size_t{2} << 20;
inline constexpr unsigned char poison = 0xFF;

struct Context;

enum class PlaceType { pageable, device, pinned };

// What is known of an address.
struct Place {
  PlaceType type = PlaceType::pageable;
  uint64_t start = 0, bytes = 0;
  int device = -1;
  uint64_t context = 0;  // the id of a pinned block's context
};

class Memory {
 public:
  // `total` bytes on each of so many devices; nothing may be left of before.
  void start(size_t devices, uint64_t total);

  uint64_t reserve(size_t bytes, size_t alignment);
  void free_range(uint64_t at, size_t bytes);
  CUmemGenericAllocationHandle create(size_t bytes, int device, bool exportable);
  void release(CUmemGenericAllocationHandle handle);
  // A new descriptor of the piece, for another process; only for what was created to be exported.
  int export_piece(CUmemGenericAllocationHandle handle) const;
  // A piece of another process, or of this one, by a descriptor that stays the caller's.
  CUmemGenericAllocationHandle import_piece(int descriptor);
  void map(uint64_t at, size_t bytes, CUmemGenericAllocationHandle handle);
  void unmap(uint64_t at, size_t bytes);
  void set_access(uint64_t at, size_t bytes, int device, CUmemAccess_flags flags);

  void* allocate_host(size_t bytes, uint64_t context);
  void free_host(void* at);
  void free_host_of(uint64_t context);

  Place find(uint64_t address) const;
  // Refuses the call unless all of it is memory that `device` may read and write: its own, or pinned.
  void check_device_access(uint64_t at, size_t bytes, int device) const;
  // Refuses the call unless all of it is one kind of memory; pageable memory is taken on trust.
  PlaceType check_copyable(uint64_t at, size_t bytes) const;
  uint64_t free_bytes(int device) const { return total_ - used_.at(static_cast<size_t>(device)); }
  uint64_t total() const { return total_; }

  struct Left {
    size_t ranges, pieces, mappings, pinned;
  };
  Left left() const { return {ranges_.size(), pieces_.size(), mappings_.size(), pinned_.size()}; }

 private:
  struct Piece {
    size_t bytes = 0;
    int device = 0;
    int file = -1;
    Memory* owner = nullptr;  // whose bytes it counts among; null for one that was imported
    bool exportable = false;
    Piece() = default;
    Piece(const Piece&) = delete;
    Piece& operator=(const Piece&) = delete;
    ~Piece();
  };
  struct Mapping {
    size_t bytes;
    std::shared_ptr<Piece> piece;
    std::set<int> devices;  // that may use it
  };
  struct Pinned {
    size_t bytes;
    uint64_t context;
    size_t mapped;
  };
  struct Range {
    size_t bytes;
    uint64_t whole;  // with the guards around it
    size_t whole_bytes;
  };
  using Mappings = std::map<uint64_t, Mapping>;

  std::shared_ptr<Piece> make_piece(size_t bytes, int device);

  // The mappings that make up [at, at + bytes) exactly; refuses the call when one is cut or missing.
  std::vector<Mappings::iterator> whole_mappings(uint64_t at, size_t bytes);
  const Range* range_around(uint64_t at, size_t bytes) const;
  Mappings::const_iterator mapping_at(uint64_t address) const;

  std::map<uint64_t, Range> ranges_;
  std::map<CUmemGenericAllocationHandle, std::shared_ptr<Piece>> pieces_;
  Mappings mappings_;
  std::map<uint64_t, Pinned> pinned_;
  std::vector<uint64_t> used_;  // of each device
  uint64_t total_ = 0;
  CUmemGenericAllocationHandle next_piece_ = 0xC0000001;
};

}  // namespace fakecuda
