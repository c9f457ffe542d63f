// SPDX-License-Identifier: Apache-2.0
// transfer.cpp: copies, fills and boxes of bytes.
//
// Invariant: a thread's piece is at least `grain` bytes, below which a parallel region costs more than it saves.
#include "transfer.hpp"

#include <algorithm>
#include <cstring>

namespace tenon::cpu {
namespace {

constexpr uint64_t grain = 256 << 10;

// Writes `bytes` of the repeated pattern; both are multiples of the pattern's size.
void repeat(std::byte* dst, uint64_t bytes, uint64_t pattern, uint64_t pattern_bytes) {
  if (pattern_bytes == 1) {
    std::memset(dst, static_cast<int>(pattern & 0xff), bytes);
    return;
  }
  // A block of whole patterns, then copies of the block: the loop stays in memcpy's vector code.
  std::byte block[512];
  for (uint64_t i = 0; i < sizeof block; i += pattern_bytes) std::memcpy(block + i, &pattern, pattern_bytes);
  for (uint64_t at = 0; at < bytes; at += sizeof block) {
    std::memcpy(dst + at, block, std::min<uint64_t>(sizeof block, bytes - at));
  }
}

}  // namespace

void transfer(const CopyCommand& copy, const Team& team) {
  team.run(copy.bytes, grain, [&](uint64_t begin, uint64_t end) {
    std::memcpy(copy.dst + begin, copy.src + begin, end - begin);
  });
}

void transfer(const FillCommand& fill, const Team& team) {
  const uint64_t unit = fill.pattern_bytes;
  team.run(fill.bytes / unit, grain / unit, [&](uint64_t begin, uint64_t end) {
    repeat(fill.dst + begin * unit, (end - begin) * unit, fill.pattern, unit);
  });
}

void transfer(const BoxCommand& box, const Team& team) {
  const uint64_t rows = box.extent[0] * box.extent[1] * box.extent[2];
  const uint64_t row_bytes = box.extent[3];
  if (rows == 0 || row_bytes == 0) return;
  team.run(rows, std::max<uint64_t>(1, grain / row_bytes), [&](uint64_t begin, uint64_t end) {
    for (uint64_t row = begin; row < end; ++row) {
      const uint64_t at[3] = {row / (box.extent[1] * box.extent[2]), row / box.extent[2] % box.extent[1],
                              row % box.extent[2]};
      std::byte* dst = box.dst;
      const std::byte* src = box.src;
      for (int i = 0; i < 3; ++i) {
        dst += at[i] * box.dst_stride[i];
        src += at[i] * box.src_stride[i];
      }
      std::memcpy(dst, src, row_bytes);
    }
  });
}

}  // namespace tenon::cpu
