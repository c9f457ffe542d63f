// SPDX-License-Identifier: Apache-2.0
// memory.hpp: a memory as the host holds it, and where a span lies on the device.
//
// Others may have its pages registered somewhere, and are told before those go.
// Invariant: pinned host memory has one address, good on the host and on every device.
#pragma once

#include "gpu.hpp"

#include <tenon/author/handle.hpp>

#include <functional>
#include <mutex>
#include <optional>

namespace tenon::cuda {

class Memory {
 public:
  // `storage` is empty for a memory of no bytes, and for one that is borrowed at `address`.
  Memory(std::shared_ptr<Gpu> gpu, std::unique_ptr<Storage> storage, CUdeviceptr address, uint64_t bytes)
      : gpu_(std::move(gpu)), storage_(std::move(storage)), address_(address), bytes_(bytes) {}
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() {
    for (const auto& call : partings_) call();
  }

  uint64_t bytes() const noexcept { return bytes_; }
  Result<uint64_t> address() noexcept { return static_cast<uint64_t>(address_); }
  CUdeviceptr place() const noexcept { return address_; }
  const Context& context() const noexcept { return *gpu_->context(); }
  // Somebody else's, which peers need not reach.
  bool is_borrowed() const noexcept { return storage_ == nullptr && bytes_ != 0; }
  // As Storage::pages.
  uint64_t pages() const noexcept { return storage_ == nullptr ? 0 : storage_->pages(); }
  // What lets another process open this memory, until it ends: the same each time. TN_UNSUPPORTED for what cannot be shared.
  // [any-thread; may block; may fail]
  Result<ipc::Listing> listing();
  // `call` is made before the pages go. [any-thread; does not block; may throw bad_alloc]
  void before_end(std::function<void()> call) {
    const std::lock_guard lock(mutex_);
    partings_.push_back(std::move(call));
  }

 private:
  std::shared_ptr<Gpu> gpu_;
  std::unique_ptr<Storage> storage_;
  CUdeviceptr address_;
  uint64_t bytes_;
  std::mutex mutex_{};  // of what follows
  std::optional<ipc::Listing> listing_{};
  std::vector<std::function<void()>> partings_{};
};

// Where a span begins; 0 for an empty one without a memory. [any-thread; does not block; cannot fail]
inline CUdeviceptr place(const tn_span& span) noexcept {
  if (span.space != TN_SPACE_MEMORY) return span.offset;
  return span.memory == nullptr ? 0 : author::object<Memory>(span.memory).place() + span.offset;
}

}  // namespace tenon::cuda
