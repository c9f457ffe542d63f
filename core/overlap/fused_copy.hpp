// SPDX-License-Identifier: Apache-2.0
// fused_copy.hpp: many small copies on one device as one launch.
//
// The kernel is a row of identities, one for each part, compiled for their types and sizes and kept until others come.
// Invariant: bytes arrive as they were, whichever way they go.
#pragma once

#include <tenon/device.hpp>

#include <span>
#include <vector>

namespace tenon::overlap {

// What it took to bring bytes together and back.
struct CopyTotals {
  uint64_t bytes = 0, launches = 0;
  CopyTotals& operator+=(const CopyTotals& more) noexcept {
    bytes += more.bytes;
    launches += more.launches;
    return *this;
  }
};

class FusedCopy {
 public:
  struct Part {
    DType dtype = f32;
    tn_span to{}, from{};
  };

  FusedCopy() = default;
  // `max_bindings`: of one kernel, as limits() says; 0: no limit.
  FusedCopy(Device device, uint32_t max_bindings) : device_(std::move(device)), max_bindings_(max_bindings) {}

  // Enqueues from → to for all parts; none overlaps another. Compiles when types or sizes are not those of the last run.
  // Copies one by one where that is all there is to do: one part, a part in the host's memory, a device without the kernel.
  // [stream's thread; may block; may fail]
  Status run(Stream& stream, std::span<const Part> parts);
  // Copies and kernels that were enqueued so far.
  uint64_t launches() const noexcept { return launches_; }

 private:
  struct Shape {
    DType dtype = f32;
    uint64_t bytes = 0;
    friend bool operator==(const Shape&, const Shape&) = default;
  };

  bool fits(std::span<const Part> parts) const noexcept;
  Status compile(std::span<const Part> parts);
  Status launch(Stream& stream, const Kernel& kernel, std::span<const Part> parts);
  Status copy_each(Stream& stream, std::span<const Part> parts);

  Device device_{};
  uint32_t max_bindings_ = 0;
  std::vector<Shape> shapes_{};    // that kernels_ are for
  std::vector<Kernel> kernels_{};  // of most_ parts each; empty: the device has none
  size_t most_ = 0;
  std::vector<tn_span> bindings_{};  // of a launch
  uint64_t launches_ = 0;
};

}  // namespace tenon::overlap
