// SPDX-License-Identifier: Apache-2.0
// guard.hpp: buffers with borders that show a write, or stop an access, one byte outside.
//
// Invariant: a payload is poisoned before use, so that "nothing arrived" never looks like "the right bytes arrived".
#pragma once

#include "conformance/objects.hpp"

#include <memory>

namespace tenon::conform {

// Memory of the plugin with a border of known bytes on each side of the payload.
class Guarded {
 public:
  static constexpr uint64_t border = 192;  // on each side; not a multiple of what allocators like

  // `skew` moves the payload away from its alignment. [stream's thread; may fail]
  static Result<Guarded> make(const Device& device, const Stream& stream, uint64_t bytes, uint64_t skew = 0,
                              uint32_t kind = TN_MEMORY_DEVICE);
  // The skew that puts the payload on an alignment, which is at most what every allocation has.
  static constexpr uint64_t skew_to(uint64_t alignment) noexcept {
    return (alignment - border % alignment) % alignment;
  }
  uint64_t bytes() const noexcept { return bytes_; }
  tn_span span() const noexcept { return span(0, bytes_); }
  tn_span span(uint64_t offset, uint64_t bytes) const noexcept {
    return memory_.span(border + skew_ + offset, bytes);
  }
  const Memory& memory() const noexcept { return memory_; }
  // The payload; the case fails where a border was written. [stream's thread; may fail]
  Result<Bytes> read(Context& t, const Stream& stream, const std::string& where) const;
  // The payload must be `expected` and the borders whole. [stream's thread; may fail]
  Status expect(Context& t, const Stream& stream, std::span<const std::byte> expected,
                const std::string& where) const;

 private:
  Memory memory_{};
  uint64_t bytes_ = 0, skew_ = 0;
};

// Host memory whose last byte lies right before, and whose page of the first byte right behind, a page that faults.
class Fenced {
 public:
  explicit Fenced(uint64_t bytes);
  Fenced(Fenced&& other) noexcept;
  Fenced& operator=(Fenced&&) = delete;
  ~Fenced();
  std::byte* data() const noexcept { return data_; }
  std::span<std::byte> bytes() const noexcept { return {data_, bytes_}; }
  tn_span span() const noexcept { return host_span(data_, bytes_); }

 private:
  std::byte* pages_ = nullptr;
  uint64_t mapped_ = 0, bytes_ = 0;
  std::byte* data_ = nullptr;
};

}  // namespace tenon::conform
