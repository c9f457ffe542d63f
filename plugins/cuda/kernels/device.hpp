// SPDX-License-Identifier: Apache-2.0
// device.hpp: the kernels that come compiled, and what they take. Read by the host's compiler and by the device's.
//
// Both are launched on one-dimensional grids of blocks of 256 threads, as many as there are words to move or fewer: a
// thread goes on where the grid ends.
// Invariant: the structures are laid out alike on both sides: 8-byte fields, and none that a compiler may pad.
#pragma once

namespace tenon::cuda {

// "fill": `bytes` bytes from `dst` on, any alignment, with a pattern of 1, 2, 4 or 8 bytes (the low ones of `pattern`) that
// starts at `dst`; `bytes` is a multiple of `pattern_bytes`.
struct FillParameters {
  unsigned long long dst, bytes, pattern;
  unsigned pattern_bytes, reserved;
};

// "copy_box": extent[0] × … × extent[3] bytes, strides in bytes; the last dim is contiguous where both its strides are 1.
// Neither side overlaps the other.
struct BoxParameters {
  unsigned long long dst, src, extent[4], dst_stride[4], src_stride[4];
};

// "pull": what `me` gets of an exchange (comm/board.hpp): from the block that each member holds for it, bytes[m] bytes to to[m],
// any alignment. Does nothing where the exchange at `slot` is not, or no more, the one of `index`.
struct PullParameters {
  unsigned long long slot, index;
  unsigned members, me;
  unsigned long long to[16], bytes[16];
};

#ifndef __CUDACC__
// The fatbin that holds them.
const void* device_image() noexcept;
#endif

}  // namespace tenon::cuda
