// SPDX-License-Identifier: Apache-2.0
// stage.hpp: memory of the host through which small numbers come to a device and back: pinned where the device has it.
//
// Invariant: copies of a span of it do not make the host wait where memory is pinned.
#pragma once

#include <tenon/device.hpp>

#include <cstddef>
#include <memory>

namespace tenon::overlap {

class Stage {
 public:
  Stage() = default;
  // TN_NO_MEMORY. [stream's thread; may block; may fail]
  static Result<Stage> open(Device& device, Stream& stream, uint64_t bytes);
  // What the host reads and writes. [any-thread; does not block; cannot fail]
  std::byte* data() const noexcept { return data_; }
  // The same, for Stream::copy. TN_INVALID past the end. [any-thread; does not block; may fail]
  Result<tn_span> span(uint64_t offset, uint64_t bytes) const;

 private:
  Buffer pinned_{};
  std::shared_ptr<std::byte[]> pageable_{};  // where the device has no pinned memory
  std::byte* data_ = nullptr;
};

}  // namespace tenon::overlap
