// SPDX-License-Identifier: Apache-2.0
// tile_step.cpp: running tiles.
//
// Invariant: an action reads and writes n elements, so the last tile may be short.
#include "tile_step.hpp"

#include "past_cache.hpp"

#include <algorithm>

namespace tenon::cpu {

using Kind = TilePlan::Action::Kind;

void act(const LaidAction& action, const TileRun& tile, bool past_cache) noexcept {
  switch (action.kind) {
    case Kind::load:
      action.load(action.view, tile.run.at(action.place), tile.begin, tile.n, tile.at(action.dst));
      return;
    case Kind::compute:
      action.compute(tile.at(action.dst), tile.at(action.operands[0]), tile.at(action.operands[1]),
                     tile.at(action.operands[2]), tile.n, action.imm);
      return;
    case Kind::store:
      break;
  }
  std::byte* const to = tile.run.at(action.place);
  const std::byte* from = tile.at(action.operands[0]);
  if (!action.past_cache || !past_cache) {
    action.store(action.view, to, tile.begin, tile.n, from);
    return;
  }
  alignas(64) std::byte narrowed[TileStep::longest_tile * 8];
  const uint32_t bytes = action.view.element_bytes();
  if (!is_native(action.view.dtype())) {
    action.store(View::dense(action.view.dtype(), tile.n), narrowed, 0, tile.n, from);
    from = narrowed;
  }
  write_past_cache(to + tile.begin * bytes, from, uint64_t{tile.n} * bytes);
}

Status TileStep::run(const Run& run) const {
  const uint64_t tiles = (count_ + tile_ - 1) / tile_;
  run.team.run(tiles, std::max<uint64_t>(1, parallel_grain / tile_),
               [&](uint64_t first, uint64_t end) { run_tiles(run, first, end); });
  return {};
}

// Whether a dense result lies where an operand does: its lines are in the cache already.
bool TileStep::writes_in_place(const Run& run) const noexcept {
  const auto reads = [&](const std::byte* at) {
    for (const LaidAction& action : each_) {
      if (action.kind == Kind::load && run.at(action.place) == at) return true;
      for (const Slot& operand : action.operands) {
        if (operand.in_memory && run.at(operand.place) == at) return true;
      }
    }
    return false;
  };
  return std::any_of(each_.begin(), each_.end(), [&](const LaidAction& action) {
    return action.past_cache && reads(run.at(action.place));
  });
}

void TileStep::run_tiles(const Run& run, uint64_t first, uint64_t end) const noexcept {
  alignas(64) std::byte scratch[scratch_bytes];
  TileRun tile{.run = run, .scratch = scratch, .tile = tile_, .begin = 0, .n = tile_};
  for (const LaidAction& action : once_) act(action, tile, false);
  const bool past_cache = !writes_in_place(run);
  for (uint64_t t = first; t < end; ++t) {
    tile.begin = t * tile_;
    tile.n = static_cast<uint32_t>(std::min<uint64_t>(tile_, count_ - tile.begin));
    bool fetched = tile.begin + 2 * tile_ > count_;  // the next tile, if it is a whole one
    for (const LaidAction& action : each_) {
      if (action.heavy && !fetched) {
        compute_and_fetch(action, tile);
        fetched = true;
      } else {
        act(action, tile, past_cache);
      }
    }
  }
  finish_past_cache();
}

// In pieces, so that requests do not pile up beyond what the processor keeps track of.
void TileStep::compute_and_fetch(const LaidAction& action, const TileRun& tile) const noexcept {
  constexpr uint32_t pieces = 8;
  const uint32_t step = (tile.n + pieces - 1) / pieces;
  for (uint32_t from = 0; from < tile.n; from += step) {
    const uint32_t to = std::min(from + step, tile.n);
    fetch(tile, from, to);
    action.compute(tile.at(action.dst, from), tile.at(action.operands[0], from),
                   tile.at(action.operands[1], from), tile.at(action.operands[2], from), to - from,
                   action.imm);
  }
}

// What the next tile reads of elements [from, to) where it is dense.
void TileStep::fetch(const TileRun& tile, uint32_t from, uint32_t to) const noexcept {
  constexpr uint64_t line = 64;
  const auto ask = [&](const Place& place, uint32_t bytes) {
    const std::byte* const base = tile.run.at(place);
    const std::byte* const end = base + (tile.begin + tile_ + to) * bytes;
    for (const std::byte* at = base + (tile.begin + tile_ + from) * bytes; at < end; at += line)
      __builtin_prefetch(at);
  };
  for (const LaidAction& action : each_) {
    if (action.kind == Kind::load && action.view.contiguous()) ask(action.place, action.view.element_bytes());
    for (const Slot& operand : action.operands) {
      if (operand.in_memory) ask(operand.place, operand.element_bytes);
    }
  }
}

}  // namespace tenon::cpu
