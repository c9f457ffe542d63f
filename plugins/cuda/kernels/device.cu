// SPDX-License-Identifier: Apache-2.0
// device.cu: the kernels that come compiled, for what streams do before any fragment is: filling, copying boxes, and moving what
// ranks of a communicator give each other.
//
// Memory-bound: n bytes filled take n over the memory's bandwidth, copied twice that.
// Invariant: no byte outside the destination is written, whatever the alignment.
#include "prelude.cuh"

#include "device.hpp"
#include "exchange.cuh"

namespace tn {

using tenon::cuda::BoxParameters;
using tenon::cuda::FillParameters;
using tenon::cuda::PullParameters;

// The pattern as it reads `shift` bytes after its start.
__device__ inline u64 turned(u64 pattern, u64 shift) {
  const u32 bits = static_cast<u32>(shift % 8 * 8);
  return bits == 0 ? pattern : pattern >> bits | pattern << (64 - bits);
}

TN_ENTRY(fill, FillParameters) {
  u64 pattern = p.pattern;
  if (p.pattern_bytes == 1) pattern = (pattern & 0xFFu) * 0x0101010101010101ull;
  if (p.pattern_bytes == 2) pattern = (pattern & 0xFFFFu) * 0x0001000100010001ull;
  if (p.pattern_bytes == 4) pattern = (pattern & 0xFFFFFFFFu) * 0x0000000100000001ull;
  u8* const to = reinterpret_cast<u8*>(p.dst);
  // Bytes up to the first multiple of 16, then words of 16, then bytes again.
  const u64 up = (16 - p.dst % 16) % 16, head = up < p.bytes ? up : p.bytes, words = (p.bytes - head) / 16;
  const u64 first = u64(blockIdx.x) * blockDim.x + threadIdx.x, step = u64(gridDim.x) * blockDim.x;
  const u64 word = turned(pattern, head);
  const Word<16> wide{static_cast<u32>(word), static_cast<u32>(word >> 32), static_cast<u32>(word),
                      static_cast<u32>(word >> 32)};
  for (u64 i = first; i < words; i += step) reinterpret_cast<Word<16>*>(to + head)[i] = wide;
  const u64 tail = head + words * 16;
  for (u64 i = first; i < head; i += step) to[i] = static_cast<u8>(turned(pattern, i));
  for (u64 i = tail + first; i < p.bytes; i += step) to[i] = static_cast<u8>(turned(pattern, i));
}

// A box whose innermost dim is counted in words of `bytes`. Divisions make the index, so 32 bits are used where they do.
template <int bytes, class Count>
__device__ inline void copy_counted(const BoxParameters& p, u64 words) {
  const Count rows = static_cast<Count>(p.extent[2]), planes = static_cast<Count>(p.extent[1]),
              row = static_cast<Count>(p.extent[3] / bytes);
  const u64 step = u64(gridDim.x) * blockDim.x;
  for (u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x; i < words; i += step) {
    const Count all = static_cast<Count>(i), line = all / row, d = all - line * row;
    const Count plane = line / rows, c = line - plane * rows, a = plane / planes, b = plane - a * planes;
    const u64 from = a * p.src_stride[0] + b * p.src_stride[1] + c * p.src_stride[2] + u64(d) * bytes * p.src_stride[3];
    const u64 to = a * p.dst_stride[0] + b * p.dst_stride[1] + c * p.dst_stride[2] + u64(d) * bytes * p.dst_stride[3];
    // The address becomes a pointer before anything is added to it, so that the compiler knows it for a global one.
    *reinterpret_cast<Word<bytes>*>(reinterpret_cast<u8*>(p.dst) + to) =
        *reinterpret_cast<const Word<bytes>*>(reinterpret_cast<const u8*>(p.src) + from);
  }
}
template <int bytes>
__device__ inline void copy_words(const BoxParameters& p) {
  const u64 words = p.extent[0] * p.extent[1] * p.extent[2] * (p.extent[3] / bytes);
  if (words < u64(1) << 32)
    copy_counted<bytes, u32>(p, words);
  else
    copy_counted<bytes, u64>(p, words);
}

TN_ENTRY(copy_box, BoxParameters) {
  u64 odd = p.dst | p.src | p.extent[3];
  for (int i = 0; i < 3; ++i) odd |= p.extent[i] > 1 ? p.dst_stride[i] | p.src_stride[i] : 0;
  const bool rows = p.dst_stride[3] == 1 && p.src_stride[3] == 1;
  if (rows && odd % 16 == 0)
    copy_words<16>(p);
  else if (rows && odd % 8 == 0)
    copy_words<8>(p);
  else if (rows && odd % 4 == 0)
    copy_words<4>(p);
  else if (rows && odd % 2 == 0)
    copy_words<2>(p);
  else
    copy_words<1>(p);
}

// Words of `bytes` where both sides are alike to that size, and single bytes before and after.
template <int bytes>
__device__ inline void move_words(u64 to, u64 from, u64 count) {
  const u64 up = (bytes - to % bytes) % bytes, head = up < count ? up : count, words = (count - head) / bytes;
  const u64 first = u64(blockIdx.x) * blockDim.x + threadIdx.x, step = u64(gridDim.x) * blockDim.x;
  u8* const bytes_to = pointer<u8>(to);
  const u8* const bytes_from = pointer<const u8>(from);
  for (u64 i = first; i < words; i += step)
    reinterpret_cast<Word<bytes>*>(bytes_to + head)[i] = reinterpret_cast<const Word<bytes>*>(bytes_from + head)[i];
  for (u64 i = first; i < head; i += step) bytes_to[i] = bytes_from[i];
  for (u64 i = head + words * bytes + first; i < count; i += step) bytes_to[i] = bytes_from[i];
}
__device__ inline void move_bytes(u64 to, u64 from, u64 count) {
  const u64 odd = to ^ from;
  if (odd % 16 == 0)
    move_words<16>(to, from, count);
  else if (odd % 8 == 0)
    move_words<8>(to, from, count);
  else if (odd % 4 == 0)
    move_words<4>(to, from, count);
  else if (odd % 2 == 0)
    move_words<2>(to, from, count);
  else
    move_words<1>(to, from, count);
}

TN_ENTRY(pull, PullParameters) {
  __shared__ u64 from[16];
  const Exchange exchange{p.slot, p.members};
  if (threadIdx.x < p.members) from[threadIdx.x] = exchange.block(threadIdx.x, p.me);
  const bool stands = exchange.stands(p.index);
  __syncthreads();
  if (!stands) return;
  for (u32 m = 0; m < p.members; ++m)
    if (p.bytes[m] != 0 && p.to[m] != from[m]) move_bytes(p.to[m], from[m], p.bytes[m]);
}

}  // namespace tn
