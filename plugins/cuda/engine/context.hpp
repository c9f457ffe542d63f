// SPDX-License-Identifier: Apache-2.0
// context.hpp: what all handles of one GPU share: its primary context, its figures, its events, its clock.
//
// The primary context is the one that frameworks use too, so their streams and addresses mean the same here.
// Invariant: a context is lost for good with the first sticky error, and tells that first error from then on.
#pragma once

#include "clock.hpp"
#include "events.hpp"
#include "pins.hpp"

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

namespace tenon::cuda {

class Context {
 public:
  // Retains the primary context of device `ordinal`. TN_UNSUPPORTED for a chip that is too old, TN_BUSY.
  // [any-thread; may block; may fail]
  static Result<std::shared_ptr<Context>> open(const Driver& driver, uint32_t ordinal);
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context();

  const Driver& driver() const noexcept { return driver_; }
  CUcontext handle() const noexcept { return handle_; }
  CUdevice device() const noexcept { return device_; }
  uint32_t ordinal() const noexcept { return ordinal_; }
  int sm() const noexcept { return sm_; }
  int multiprocessors() const noexcept { return multiprocessors_; }
  uint32_t priorities() const noexcept { return static_cast<uint32_t>(least_ - greatest_ + 1); }
  // The driver's number for our priority, which is 0 for the least urgent.
  int native_priority(uint32_t priority) const noexcept { return least_ - static_cast<int>(priority); }
  EventPool& events() noexcept { return events_; }
  Clock& clock() noexcept { return clock_; }
  Pins& pins() noexcept { return pins_; }
  // What its memory moves at most, as published; 0 when the driver does not tell.
  double bytes_per_second() const noexcept { return bytes_per_second_; }
  // Devices that may touch this one's memory, itself first.
  const std::vector<CUdevice>& accessors() const noexcept { return accessors_; }

  // The failure of a driver call, after which this context may be lost. [any-thread; does not block; cannot fail]
  Status failed(CUresult result, const char* call, std::string_view about = "") const;
  // TN_DEVICE_LOST with the first story, once there is one. [any-thread; does not block; may fail]
  Status alive() const;

  // Counts bytes that this process holds here.
  void took(int64_t bytes) noexcept { used_.fetch_add(bytes, std::memory_order_relaxed); }
  uint64_t used() const noexcept { return static_cast<uint64_t>(used_.load(std::memory_order_relaxed)); }

 private:
  Context(const Driver& driver, uint32_t ordinal)
      : driver_(driver), ordinal_(ordinal), events_(*this), pins_(driver) {}
  Status retain();
  Status measure();
  void measure_memory();
  Status find_accessors();
  Result<int> attribute(CUdevice_attribute which) const;

  const Driver& driver_;
  const uint32_t ordinal_;
  CUdevice device_ = 0;
  CUcontext handle_ = nullptr;
  int sm_ = 0, multiprocessors_ = 0, least_ = 0, greatest_ = 0;
  double bytes_per_second_ = 0;
  std::vector<CUdevice> accessors_{};
  EventPool events_;
  Pins pins_;
  Clock clock_;
  std::atomic<int64_t> used_{0};
  mutable std::atomic<const Error*> lost_{nullptr};
};

}  // namespace tenon::cuda

// As TN_CUDA, and remembers when the context is lost.
#define TN_CUDA_IN(context, name, ...)                                    \
  do {                                                                    \
    const CUresult tn_cuda_result = (context).driver().name(__VA_ARGS__); \
    if (tn_cuda_result != CUDA_SUCCESS) [[unlikely]]                      \
      return (context).failed(tn_cuda_result, #name);                     \
  } while (false)
