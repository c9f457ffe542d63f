// SPDX-License-Identifier: Apache-2.0
// storage.cpp: reserving, mapping, sharing and pinning.
#include "storage.hpp"

#include <tenon/device.h>
#include <tenon/author/text.hpp>

#include <unistd.h>

#include <algorithm>
#include <bit>

namespace tenon::cuda {

using author::text;

namespace {

uint64_t round_up(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

Status no_memory(CUresult result, std::string message) {
  return Status(
      Error{.code = TN_NO_MEMORY, .message = std::move(message), .domain = "cuda", .native_code = result});
}

// "out of memory", with the device's figures, which a person needs.
Status short_of(const Context& context, CUresult result, const char* call, uint64_t bytes, const char* what) {
  if (result != CUDA_ERROR_OUT_OF_MEMORY) return context.failed(result, call, text(bytes, " bytes"));
  size_t free = 0, total = 0;
  context.driver().cuMemGetInfo(&free, &total);
  return no_memory(result, text("asked for ", bytes, " bytes of ", what, "; device 'cuda:", context.ordinal(),
                                "' has ", free, " of ", total, " bytes free, and this process holds ",
                                context.used(), " of them here: free some, or run with less"));
}

// The same for pages of the host, with the host's figures.
Status short_of_host(const Context& context, CUresult result, uint64_t bytes) {
  if (result != CUDA_ERROR_OUT_OF_MEMORY)
    return context.failed(result, "cuMemHostAlloc", text(bytes, " bytes"));
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return no_memory(result,
                   text("asked for ", bytes, " bytes of page-locked host memory; the host has ",
                        page * static_cast<uint64_t>(sysconf(_SC_AVPHYS_PAGES)), " of ",
                        page * static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)),
                        " bytes free, and not all of them may be locked: free some, or run with less"));
}

CUmemAllocationProp properties(const Context& context) {
  const auto has = [&](CUdevice_attribute which) {
    int value = 0;
    return context.driver().cuDeviceGetAttribute(&value, which, context.device()) == CUDA_SUCCESS &&
           value != 0;
  };
  CUmemAllocationProp out{};
  out.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  out.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = context.device()};
  if (has(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED))
    out.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  if (has(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED))
    out.allocFlags.gpuDirectRDMACapable = 1;
  return out;
}

// An address range, the pages behind it, and the mapping between them: each step undone when a later one fails.
class Pages final : public Storage {
 public:
  explicit Pages(std::shared_ptr<Context> context) : context_(std::move(context)) {}
  ~Pages() override {
    const Driver& driver = context_->driver();
    const Bound bound(driver, context_->handle());
    if (mapped_) driver.cuMemUnmap(address_, bytes_);
    if (pages_ != 0) driver.cuMemRelease(pages_);
    if (address_ != 0) driver.cuMemAddressFree(address_, bytes_);
    if (mapped_ && !opened_) context_->took(-static_cast<int64_t>(bytes_));
  }

  CUdeviceptr address() const noexcept override { return address_ + offset_; }
  uint64_t pages() const noexcept override { return opened_ ? 0 : bytes_; }

  Result<Share> share() override {
    if (opened_) {
      return Status(
          TN_UNSUPPORTED,
          "this memory was opened from a ticket: pass that ticket on, which the process that allocated "
          "the memory wrote");
    }
    if (!shareable_) {
      return Status(
          TN_UNSUPPORTED,
          text("device 'cuda:", context_->ordinal(),
               "' gives its memory to no other process (its driver exports no descriptors): copy it "
               "through host memory"));
    }
    const std::lock_guard lock(mutex_);
    if (descriptor_ == nullptr) {
      const Bound bound(context_->driver(), context_->handle());
      int number = -1;
      const CUresult result = context_->driver().cuMemExportToShareableHandle(
          &number, pages_, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
      if (result != CUDA_SUCCESS)
        return context_->failed(result, "cuMemExportToShareableHandle", "it takes a descriptor: ulimit -n");
      descriptor_ = std::make_shared<const Fd>(Fd::adopt(number));
    }
    return Share{.pages = descriptor_, .page_bytes = bytes_};
  }

  Status map(uint64_t bytes, uint64_t alignment) {
    const Context& context = *context_;
    const Bound bound(context.driver(), context.handle());
    const CUmemAllocationProp wanted = properties(context);
    shareable_ = wanted.requestedHandleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    size_t unit = 0;
    TN_CUDA_IN(context, cuMemGetAllocationGranularity, &unit, &wanted, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
    bytes_ = round_up(bytes, unit);
    const auto& driver = context.driver();
    if (const CUresult result = driver.cuMemCreate(&pages_, bytes_, &wanted, 0); result != CUDA_SUCCESS) {
      pages_ = 0;
      return short_of(context, result, "cuMemCreate", bytes, "device memory");
    }
    TN_TRY(place(alignment > unit ? alignment : 0));
    context_->took(static_cast<int64_t>(bytes_));
    return open_to_all();
  }

  // The driver has a descriptor of its own from then on.
  Status open(const Fd& pages, uint64_t bytes, uint64_t offset) {
    const Context& context = *context_;
    const Bound bound(context.driver(), context.handle());
    bytes_ = bytes;
    offset_ = offset;
    opened_ = true;
    const CUresult result = context.driver().cuMemImportFromShareableHandle(
        &pages_, reinterpret_cast<void*>(intptr_t{pages.get()}), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    if (result != CUDA_SUCCESS) {
      pages_ = 0;
      return context.failed(result, "cuMemImportFromShareableHandle",
                            text(bytes, " bytes of another process"));
    }
    TN_TRY(place(0));
    return open_to_all();
  }

 private:
  // Addresses, and the pages there.
  Status place(size_t alignment) {
    const Context& context = *context_;
    const CUresult result = context.driver().cuMemAddressReserve(&address_, bytes_, alignment, 0, 0);
    if (result != CUDA_SUCCESS) {
      address_ = 0;
      return short_of(context, result, "cuMemAddressReserve", bytes_, "device addresses");
    }
    TN_CUDA_IN(context, cuMemMap, address_, bytes_, 0, pages_, 0);
    mapped_ = true;
    return {};
  }

  Status open_to_all() {
    std::vector<CUmemAccessDesc> who;
    for (const CUdevice device : context_->accessors()) {
      CUmemAccessDesc one{};
      one.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
      one.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
      who.push_back(one);
    }
    TN_CUDA_IN(*context_, cuMemSetAccess, address_, bytes_, who.data(), who.size());
    return {};
  }

  std::shared_ptr<Context> context_;
  CUmemGenericAllocationHandle pages_ = 0;
  CUdeviceptr address_ = 0;
  uint64_t bytes_ = 0, offset_ = 0;
  bool mapped_ = false, shareable_ = false;
  bool opened_ = false;  // made by another process
  std::mutex mutex_{};   // of the first to share it
  std::shared_ptr<const Fd> descriptor_{};
};

class Pinned final : public Storage {
 public:
  explicit Pinned(std::shared_ptr<Context> context) : context_(std::move(context)) {}
  ~Pinned() override {
    const Bound bound(context_->driver(), context_->handle());
    if (whole_ != nullptr) context_->pins().end(whole_, bytes_, unused_);
  }

  CUdeviceptr address() const noexcept override { return address_; }
  Result<Share> share() override {
    return Status(TN_UNSUPPORTED,
                  "pinned host memory belongs to one process: export device memory, and copy there");
  }
  void mark_unused() noexcept override { unused_ = true; }

  Status pin(uint64_t bytes, uint64_t alignment) {
    constexpr uint64_t page = 4096;  // what the driver aligns to by itself
    const uint64_t slack = alignment > page ? alignment : 0;
    bytes_ = bytes + slack;
    whole_ = context_->pins().again(bytes_);
    if (whole_ == nullptr) TN_TRY(take(bytes));
    const auto start = reinterpret_cast<uintptr_t>(whole_);
    address_ = slack == 0 ? start : round_up(start, alignment);
    return {};
  }

 private:
  Status take(uint64_t asked) {
    const Bound bound(context_->driver(), context_->handle());
    const auto ask = [&] {
      return context_->driver().cuMemHostAlloc(&whole_, bytes_, CU_MEMHOSTALLOC_PORTABLE);
    };
    CUresult result = ask();
    if (result == CUDA_ERROR_OUT_OF_MEMORY && context_->pins().release()) result = ask();
    if (result == CUDA_SUCCESS) return {};
    whole_ = nullptr;
    return short_of_host(*context_, result, asked);
  }

  std::shared_ptr<Context> context_;
  void* whole_ = nullptr;
  uint64_t bytes_ = 0;
  CUdeviceptr address_ = 0;
  bool unused_ = false;
};

}  // namespace

Result<std::unique_ptr<Storage>> map_pages(std::shared_ptr<Context> context, uint64_t bytes,
                                           uint64_t alignment) {
  auto made = std::make_unique<Pages>(std::move(context));
  TN_TRY(made->map(bytes, alignment));
  return std::unique_ptr<Storage>(std::move(made));
}

Result<std::unique_ptr<Storage>> open_pages(std::shared_ptr<Context> context, const Fd& pages,
                                            uint64_t page_bytes, uint64_t offset) {
  auto made = std::make_unique<Pages>(std::move(context));
  TN_TRY(made->open(pages, page_bytes, offset));
  return std::unique_ptr<Storage>(std::move(made));
}

Result<std::unique_ptr<Storage>> pin_host(std::shared_ptr<Context> context, uint64_t bytes,
                                          uint64_t alignment) {
  auto made = std::make_unique<Pinned>(std::move(context));
  TN_TRY(made->pin(bytes, alignment));
  return std::unique_ptr<Storage>(std::move(made));
}

class Slabs::Piece final : public Storage {
 public:
  Piece(std::shared_ptr<Slabs> slabs, Slab& slab, CUdeviceptr address)
      : slabs_(std::move(slabs)), slab_(slab), address_(address) {}
  ~Piece() override { slabs_->give_back(slab_, address_); }
  CUdeviceptr address() const noexcept override { return address_; }
  Result<Share> share() override { return slabs_->share(slab_, address_); }

 private:
  std::shared_ptr<Slabs> slabs_;
  Slab& slab_;
  CUdeviceptr address_;
};

Result<std::unique_ptr<Storage>> Slabs::take(const std::shared_ptr<Slabs>& slabs, uint64_t bytes) {
  const uint64_t piece = std::bit_ceil(std::max<uint64_t>(bytes, TN_MEMORY_ALIGNMENT));
  const auto [slab, address] = TN_TRY(slabs->cut(piece));
  return std::unique_ptr<Storage>(std::make_unique<Piece>(slabs, *slab, address));
}

Result<std::pair<Slabs::Slab*, CUdeviceptr>> Slabs::cut(uint64_t piece) {
  const std::lock_guard lock(mutex_);
  const auto [first, last] = slabs_.equal_range(piece);
  auto found = std::find_if(first, last, [](const auto& entry) { return !entry.second.free.empty(); });
  if (found == last) {
    constexpr uint64_t whole = 2 << 20;
    Slab fresh;
    fresh.pages = TN_TRY(map_pages(context_, whole, 0));
    fresh.piece = piece;
    fresh.free.reserve(whole / piece);
    for (uint64_t at = whole; at != 0; at -= piece) fresh.free.push_back(fresh.pages->address() + at - piece);
    found = slabs_.emplace(piece, std::move(fresh));
  }
  Slab& slab = found->second;
  const CUdeviceptr address = slab.free.back();
  slab.free.pop_back();
  ++slab.taken;
  return std::pair{&slab, address};
}

Result<Share> Slabs::share(Slab& slab, CUdeviceptr address) {
  const std::lock_guard lock(mutex_);
  Share out = TN_TRY(slab.pages->share());
  out.offset = address - slab.pages->address();
  slab.shared = true;
  slab.free.clear();
  return out;
}

void Slabs::give_back(Slab& slab, CUdeviceptr address) noexcept {
  const std::lock_guard lock(mutex_);
  if (!slab.shared) slab.free.push_back(address);
  if (--slab.taken != 0) return;
  const auto [first, last] = slabs_.equal_range(slab.piece);
  slabs_.erase(std::find_if(first, last, [&](const auto& entry) { return &entry.second == &slab; }));
}

}  // namespace tenon::cuda
