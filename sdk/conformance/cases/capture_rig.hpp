// SPDX-License-Identifier: Apache-2.0
// capture_rig.hpp: what cases of captures begin with.
//
// Invariant: a cell's last eight bytes are its number, once it was put.
#pragma once

#include "conformance/captures.hpp"
#include "conformance/case.hpp"

#include <cstring>

namespace tenon::conform {

inline constexpr uint64_t cell_bytes = 512;

// Two cells and a stream, with captures.
struct CaptureRig {
  const Device* device;
  Captures captures;
  Memory a, b;
  Stream stream;

  static Result<CaptureRig> make(Context& t) {
    const Captures captures = TN_TRY(Captures::of(t));
    const Device& device = *TN_TRY(t.device());
    Memory a = TN_TRY(device.alloc(cell_bytes))
    , b = TN_TRY(device.alloc(cell_bytes));
    Stream stream = TN_TRY(device.stream());
    return CaptureRig{&device, captures, std::move(a), std::move(b), std::move(stream)};
  }
  Status put(const Memory& memory, uint64_t number) const { return stream.fill(memory.span(), number, 8); }
  Result<uint64_t> get(const Memory& memory) const {
    const Bytes found = TN_TRY(download(stream, memory.span()));
    uint64_t number = 0;
    std::memcpy(&number, found.data() + cell_bytes - sizeof number, sizeof number);
    return number;
  }
  // b = a, captured.
  Result<Capture> captured_copy() const {
    TN_TRY(captures.begin(stream));
    TN_TRY(stream.copy(b.span(), a.span()));
    return captures.end(stream);
  }
  Status holds(Context& t, const Memory& memory, uint64_t wanted, const char* when) const {
    const uint64_t found = TN_TRY(get(memory));
    t.check(found == wanted, when, ": expected ", wanted, ", found ", found);
    return {};
  }
};

}  // namespace tenon::conform
