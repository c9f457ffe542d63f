// SPDX-License-Identifier: Apache-2.0
// stream_checks.hpp: what is asked of a copy, a box and a wait before an author's stream sees them.
//
// Invariant: every refusal names both sides' figures.
#pragma once

#include <tenon/stream.h>
#include <tenon/author/span.hpp>

namespace tenon::author {

// Whether two spans share a byte. Addresses of different spaces are never compared.
inline bool overlap(const tn_span& a, const tn_span& b) noexcept {
  if (a.space != b.space || (a.space == TN_SPACE_MEMORY && a.memory != b.memory)) return false;
  return a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

// The rules of `copy` for two spans that are good by themselves.
inline Status check_copy(const tn_span& dst, const tn_span& src) {
  if (dst.bytes != src.bytes) {
    return Status(TN_INVALID,
                  text("dst has ", dst.bytes, " bytes and src ", src.bytes, ": they must be equal"));
  }
  if (dst.bytes == 0 || !overlap(dst, src)) return {};
  return Status(TN_INVALID,
                text("dst at ", dst.offset, " and src at ", src.offset, " of one memory overlap over ",
                     dst.bytes, " bytes: copy through a third place"));
}

// A value has to be issued before anyone can wait for it.
inline Status check_issued(uint64_t issued, uint64_t value) {
  if (value <= issued) return {};
  return Status(
      TN_INVALID,
      text("value ", value, " was neither recorded nor promised on this stream; its newest is ", issued));
}

// One device opened twice is still one device.
template <class Plugin, class Device>
Status check_devices(const Device& waiting, const Device& awaited) {
  if (waiting.ordinal == awaited.ordinal) return {};
  if ((Instance<Plugin>::features & TN_FEATURE_CROSS_DEVICE_WAIT) != 0) return {};
  return Status(TN_UNSUPPORTED,
                text("a stream of device ", waiting.ordinal, " cannot wait for one of device ",
                     awaited.ordinal, " (no feature CROSS_DEVICE_WAIT): wait on the host"));
}

// Bytes from the first to one past the last that a box touches; 0 when it is empty, UINT64_MAX when it
// overflows.
inline uint64_t box_reach(const tn_copy_shape& box, const uint64_t (&stride)[4]) noexcept {
  uint64_t last = 0;
  for (uint32_t i = 0; i < box.rank; ++i) {
    uint64_t step = 0;
    if (box.extent[i] == 0) return 0;
    if (__builtin_mul_overflow(box.extent[i] - 1, stride[i], &step) ||
        __builtin_add_overflow(last, step, &last)) {
      return UINT64_MAX;
    }
  }
  return last == UINT64_MAX ? last : last + 1;
}

// Whether one side's box lies inside its span.
inline Status check_box(const tn_copy_shape& box, const uint64_t (&stride)[4], uint64_t bytes,
                        const char* side) {
  if (box.rank == 0 || box.rank > 4)
    return Status(TN_INVALID, text("shape.rank is ", box.rank, ": it is 1 to 4"));
  if (stride[box.rank - 1] != 1) return Status(TN_INVALID, text(side, ": the last stride is not 1"));
  const uint64_t needed = box_reach(box, stride);
  if (needed <= bytes) return {};
  return Status(TN_INVALID, text(side, ": the box reaches ", needed, " bytes into a span of ", bytes));
}

}  // namespace tenon::author
