// SPDX-License-Identifier: Apache-2.0
// tile_step.cpp: running tiles.
//
// Invariant: an action reads and writes n elements, so the last tile may be short.
#include "tile_step.hpp"

#include <algorithm>

namespace tenon::cpu {

Status TileStep::run(const Run& run) const {
  const uint64_t tiles = (count_ + tile_ - 1) / tile_;
  run.team.run(tiles, std::max<uint64_t>(1, parallel_grain / tile_),
               [&](uint64_t first, uint64_t end) { run_tiles(run, first, end); });
  return {};
}

void TileStep::run_tiles(const Run& run, uint64_t first, uint64_t end) const noexcept {
  alignas(64) std::byte scratch[scratch_bytes];
  for (const TileAction& action : once_) act(action, run, scratch, 0, tile_);
  for (uint64_t tile = first; tile < end; ++tile) {
    const uint64_t begin = tile * tile_;
    const auto n = static_cast<uint32_t>(std::min<uint64_t>(tile_, count_ - begin));
    for (const TileAction& action : each_) act(action, run, scratch, begin, n);
  }
}

void TileStep::act(const TileAction& action, const Run& run, std::byte* scratch, uint64_t begin,
                   uint32_t n) const noexcept {
  const auto address = [&](const Slot& slot) -> std::byte* {
    if (!slot.used) return nullptr;
    if (slot.in_memory) return run.at(slot.place) + begin * slot.element_bytes;
    return scratch + slot.offset * tile_;
  };
  switch (action.kind) {
    case TileAction::Kind::load:
      action.load(action.view, run.at(action.place), begin, n, address(action.dst));
      return;
    case TileAction::Kind::compute:
      action.compute(address(action.dst), address(action.operands[0]), address(action.operands[1]),
                     address(action.operands[2]), n, action.imm);
      return;
    case TileAction::Kind::store:
      action.store(action.view, run.at(action.place), begin, n, address(action.operands[0]));
      return;
  }
}

}  // namespace tenon::cpu
