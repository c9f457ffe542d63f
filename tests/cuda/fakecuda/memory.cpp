// SPDX-License-Identifier: Apache-2.0
// memory.cpp: each piece of device memory is a file in memory; a mapping is a view of it.
#include "memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cstring>

namespace fakecuda {
namespace {

constexpr size_t page = 4096;
constexpr int nowhere = PROT_NONE, usable_bytes = PROT_READ | PROT_WRITE;

void* at_address(uint64_t address) { return reinterpret_cast<void*>(address); }
uint64_t address_of(const void* at) { return reinterpret_cast<uint64_t>(at); }
size_t rounded(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }
bool is_granular(size_t bytes) { return bytes > 0 && bytes % granularity == 0; }

// Fresh addresses that fault.
uint64_t take_addresses(size_t bytes) {
  void* at = mmap(nullptr, bytes, nowhere, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  require(at != MAP_FAILED, CUDA_ERROR_OUT_OF_MEMORY);
  return address_of(at);
}

}  // namespace

void Memory::start(size_t devices, uint64_t total) {
  used_.assign(devices, 0);
  total_ = total / granularity * granularity;
}

uint64_t Memory::reserve(size_t bytes, size_t alignment) {
  require(is_granular(bytes), CUDA_ERROR_INVALID_VALUE);
  require(alignment == 0 || std::has_single_bit(alignment), CUDA_ERROR_INVALID_VALUE);
  const size_t aligned = std::max(alignment, granularity);
  const size_t whole_bytes = bytes + aligned + 2 * granularity;
  const uint64_t whole = take_addresses(whole_bytes);
  const uint64_t at = rounded(whole + granularity, aligned);
  ranges_.emplace(at, Range{bytes, whole, whole_bytes});
  return at;
}

void Memory::free_range(uint64_t at, size_t bytes) {
  const auto range = ranges_.find(at);
  require(range != ranges_.end() && range->second.bytes == bytes, CUDA_ERROR_INVALID_VALUE);
  const auto mapping = mappings_.lower_bound(at);
  require(mapping == mappings_.end() || mapping->first >= at + bytes, CUDA_ERROR_INVALID_VALUE);
  munmap(at_address(range->second.whole), range->second.whole_bytes);
  ranges_.erase(range);
}

// A page behind the bytes says what the file is; nobody maps it.
namespace {
struct Label {
  char mark[16] = "fakecuda piece";
  uint64_t bytes = 0;
  int64_t device = 0;
};
}  // namespace

std::shared_ptr<Memory::Piece> Memory::make_piece(size_t bytes, int device) {
  auto out = std::make_shared<Piece>();
  out->file = memfd_create("fakecuda-piece", MFD_CLOEXEC);
  require(out->file >= 0 && ftruncate(out->file, static_cast<off_t>(bytes + page)) == 0,
          CUDA_ERROR_OUT_OF_MEMORY);
  const Label label{.bytes = bytes, .device = device};
  require(pwrite(out->file, &label, sizeof label, static_cast<off_t>(bytes)) == sizeof label,
          CUDA_ERROR_OUT_OF_MEMORY);
  void* view = mmap(nullptr, bytes, usable_bytes, MAP_SHARED, out->file, 0);
  require(view != MAP_FAILED, CUDA_ERROR_OUT_OF_MEMORY);
  std::memset(view, poison, bytes);
  munmap(view, bytes);
  out->bytes = bytes;
  out->device = device;
  out->owner = this;
  used_[static_cast<size_t>(device)] += bytes;
  return out;
}

Memory::Piece::~Piece() {
  if (owner != nullptr) owner->used_[static_cast<size_t>(device)] -= bytes;
  if (file >= 0) close(file);
}

CUmemGenericAllocationHandle Memory::create(size_t bytes, int device, bool exportable) {
  require(is_granular(bytes), CUDA_ERROR_INVALID_VALUE);
  require(bytes <= free_bytes(device), CUDA_ERROR_OUT_OF_MEMORY);
  auto piece = make_piece(bytes, device);
  piece->exportable = exportable;
  const auto handle = next_piece_++;
  pieces_.emplace(handle, std::move(piece));
  return handle;
}

// Without FD_CLOEXEC: nothing says that a driver sets it, so whoever needs it has to.
int Memory::export_piece(CUmemGenericAllocationHandle handle) const {
  const auto piece = pieces_.find(handle);
  require(piece != pieces_.end() && piece->second->exportable, CUDA_ERROR_INVALID_VALUE);
  const int out = dup(piece->second->file);
  require(out >= 0, CUDA_ERROR_OPERATING_SYSTEM);
  return out;
}

CUmemGenericAllocationHandle Memory::import_piece(int descriptor) {
  struct stat info {};
  require(fstat(descriptor, &info) == 0 && info.st_size > static_cast<off_t>(page), CUDA_ERROR_INVALID_VALUE);
  const auto bytes = static_cast<size_t>(info.st_size) - page;
  Label label{};
  require(pread(descriptor, &label, sizeof label, static_cast<off_t>(bytes)) == sizeof label &&
              std::memcmp(label.mark, Label{}.mark, sizeof label.mark) == 0 && label.bytes == bytes,
          CUDA_ERROR_INVALID_VALUE);
  require(label.device < static_cast<int64_t>(used_.size()), CUDA_ERROR_INVALID_DEVICE);
  auto piece = std::make_shared<Piece>();
  piece->file = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  require(piece->file >= 0, CUDA_ERROR_OPERATING_SYSTEM);
  piece->bytes = bytes;
  piece->device = static_cast<int>(label.device);
  const auto handle = next_piece_++;
  pieces_.emplace(handle, std::move(piece));
  return handle;
}

void Memory::release(CUmemGenericAllocationHandle handle) {
  require(pieces_.erase(handle) == 1, CUDA_ERROR_INVALID_VALUE);
}

const Memory::Range* Memory::range_around(uint64_t at, size_t bytes) const {
  auto range = ranges_.upper_bound(at);
  if (range == ranges_.begin()) return nullptr;
  --range;
  return at + bytes <= range->first + range->second.bytes ? &range->second : nullptr;
}

Memory::Mappings::const_iterator Memory::mapping_at(uint64_t address) const {
  auto mapping = mappings_.upper_bound(address);
  if (mapping == mappings_.begin()) return mappings_.end();
  --mapping;
  return address < mapping->first + mapping->second.bytes ? mapping : mappings_.end();
}

void Memory::map(uint64_t at, size_t bytes, CUmemGenericAllocationHandle handle) {
  require(at % granularity == 0 && is_granular(bytes), CUDA_ERROR_INVALID_VALUE);
  const auto piece = pieces_.find(handle);
  require(piece != pieces_.end() && bytes <= piece->second->bytes, CUDA_ERROR_INVALID_VALUE);
  require(range_around(at, bytes) != nullptr, CUDA_ERROR_INVALID_VALUE);
  const auto next = mappings_.lower_bound(at);
  const bool taken =
      mapping_at(at) != mappings_.end() || (next != mappings_.end() && next->first < at + bytes);
  require(!taken, CUDA_ERROR_INVALID_VALUE);
  void* view = mmap(at_address(at), bytes, nowhere, MAP_SHARED | MAP_FIXED, piece->second->file, 0);
  require(view != MAP_FAILED, CUDA_ERROR_OUT_OF_MEMORY);
  mappings_.emplace(at, Mapping{bytes, piece->second, {}});
}

std::vector<Memory::Mappings::iterator> Memory::whole_mappings(uint64_t at, size_t bytes) {
  std::vector<Mappings::iterator> out;
  for (uint64_t next = at; next != at + bytes;) {
    const auto mapping = mappings_.find(next);
    require(mapping != mappings_.end() && mapping->second.bytes <= at + bytes - next,
            CUDA_ERROR_INVALID_VALUE);
    out.push_back(mapping);
    next += mapping->second.bytes;
  }
  require(!out.empty(), CUDA_ERROR_INVALID_VALUE);
  return out;
}

void Memory::unmap(uint64_t at, size_t bytes) {
  for (const auto& mapping : whole_mappings(at, bytes)) mappings_.erase(mapping);
  void* gone =
      mmap(at_address(at), bytes, nowhere, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  require(gone != MAP_FAILED, CUDA_ERROR_OUT_OF_MEMORY);
}

void Memory::set_access(uint64_t at, size_t bytes, int device, CUmemAccess_flags flags) {
  const bool allowed = flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
  for (const auto& mapping : whole_mappings(at, bytes)) {
    auto& devices = mapping->second.devices;
    if (allowed) {
      devices.insert(device);
    } else {
      devices.erase(device);
    }
    mprotect(at_address(mapping->first), mapping->second.bytes, devices.empty() ? nowhere : usable_bytes);
  }
}

void* Memory::allocate_host(size_t bytes, uint64_t context) {
  require(bytes > 0, CUDA_ERROR_INVALID_VALUE);
  const size_t mapped = rounded(bytes, page) + 2 * page;
  const uint64_t whole = take_addresses(mapped);
  void* at = at_address(whole + page);
  mprotect(at, mapped - 2 * page, usable_bytes);
  std::memset(at, poison, mapped - 2 * page);
  pinned_.emplace(address_of(at), Pinned{bytes, context, mapped});
  return at;
}

void Memory::free_host(void* at) {
  const auto block = pinned_.find(address_of(at));
  require(block != pinned_.end(), CUDA_ERROR_INVALID_VALUE);
  munmap(at_address(block->first - page), block->second.mapped);
  pinned_.erase(block);
}

void Memory::free_host_of(uint64_t context) {
  std::vector<uint64_t> gone;
  for (const auto& [at, block] : pinned_)
    if (block.context == context) gone.push_back(at);
  for (const uint64_t at : gone) free_host(at_address(at));
}

Place Memory::find(uint64_t address) const {
  if (const auto mapping = mapping_at(address); mapping != mappings_.end())
    return {PlaceType::device, mapping->first, mapping->second.bytes, mapping->second.piece->device, 0};
  auto block = pinned_.upper_bound(address);
  if (block == pinned_.begin()) return {};
  --block;
  if (address >= block->first + block->second.bytes) return {};
  return {PlaceType::pinned, block->first, block->second.bytes, -1, block->second.context};
}

void Memory::check_device_access(uint64_t at, size_t bytes, int device) const {
  const uint64_t end = at + bytes;
  require(end >= at, CUDA_ERROR_INVALID_VALUE);
  for (uint64_t next = at; next < end;) {
    const Place place = find(next);
    require(place.type != PlaceType::pageable, CUDA_ERROR_INVALID_VALUE);
    if (place.type == PlaceType::device)
      require(mapping_at(next)->second.devices.contains(device), CUDA_ERROR_INVALID_VALUE);
    next = place.start + place.bytes;
  }
}

PlaceType Memory::check_copyable(uint64_t at, size_t bytes) const {
  const PlaceType type = find(at).type;
  const uint64_t end = at + bytes;
  require(end >= at, CUDA_ERROR_INVALID_VALUE);
  if (type == PlaceType::pageable) {
    // Neither a range nor a piece of one: an address that is reserved and not mapped is no host memory.
    require(at != 0 && range_around(at, 0) == nullptr, CUDA_ERROR_INVALID_VALUE);
    return type;
  }
  for (uint64_t next = at; next < end;) {
    const Place place = find(next);
    require(place.type == type, CUDA_ERROR_INVALID_VALUE);
    if (type == PlaceType::device)
      require(!mapping_at(next)->second.devices.empty(), CUDA_ERROR_INVALID_VALUE);
    next = place.start + place.bytes;
  }
  return type;
}

}  // namespace fakecuda
