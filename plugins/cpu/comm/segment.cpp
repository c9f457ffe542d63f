// SPDX-License-Identifier: Apache-2.0
// segment.cpp: sizes, and mapping.
//
// What grows with the square of the ranks is cut down with their number: 4 MiB for 2 ranks, 20 for 8, 67 for 256; between hosts
// 32 MiB for 2 ranks, 36 for 8, 67 for 256.
// Invariant: two processes that know the number of ranks agree on every offset.
#include "segment.hpp"

#include <tenon/author/text.hpp>

#include <algorithm>
#include <bit>
#include <cstring>

namespace tenon::cpu::comm {
namespace {

constexpr uint64_t all_stages = 16 << 20, all_rings = 8 << 20;
// Between hosts a piece is seen when threads get a processor, which they share with what computes. Meanwhile the link carries what is
// under way.
constexpr uint64_t all_far_stages = 32 << 20, far_piece = 512 << 10;

constexpr uint64_t rounded(uint64_t bytes) {
  return (bytes + system::page - 1) / system::page * system::page;
}

}  // namespace

bool Failure::set(int32_t why, std::string_view said) noexcept {
  uint32_t free = 0;
  if (!claimed.compare_exchange_strong(free, 1)) return false;
  std::memcpy(words, said.data(), std::min(said.size(), sizeof words - 1));
  return set_code(why);
}

bool Failure::set_code(int32_t why) noexcept {
  uint32_t none = 0;
  return code.compare_exchange_strong(none, static_cast<uint32_t>(why), std::memory_order_seq_cst);
}

Layout::Layout(uint32_t size) noexcept {
  const uint64_t ranks = size, pairs = ranks * ranks;
  ring_bytes = std::clamp<uint64_t>(std::bit_floor(all_rings / pairs), 128, 64 << 10);
  near = {.bytes = std::clamp<uint64_t>(std::bit_floor(all_stages / ranks), 128 << 10, 2 << 20), .parts = 4};
  far.bytes = std::clamp<uint64_t>(std::bit_floor(all_far_stages / ranks), 128 << 10, 16 << 20);
  far.parts = std::clamp<uint32_t>(static_cast<uint32_t>(far.bytes / far_piece), 4, 32);
  slots = rounded(sizeof(Header));
  boards = slots + rounded(ranks * sizeof(Slot));
  channels = boards + rounded(ranks * 2 * sizeof(Board));
  rings = channels + rounded(pairs * sizeof(Channel));
  stages = rings + rounded(pairs * ring_bytes);
  bytes = stages + rounded(ranks * near.bytes);
  far_bytes = stages + rounded(ranks * far.bytes);
}

Result<std::shared_ptr<Segment>> Segment::map(const system::Fd& memory, uint32_t size) {
  const Layout layout(size);
  std::byte* base = system::map(memory, layout.far_bytes);
  if (base == nullptr) {
    return Status(TN_NO_MEMORY, author::text("no address range for the ", layout.far_bytes, " bytes that ",
                                             size, " ranks share"));
  }
  return std::shared_ptr<Segment>(new Segment(base, size));
}

Segment::~Segment() { system::unmap(base_, layout_.far_bytes); }

}  // namespace tenon::cpu::comm
