// SPDX-License-Identifier: Apache-2.0
// tile_step.hpp: the interpreter of tile plans.
//
// Invariant: tiles are independent: any thread may run any of them, in any order.
#pragma once

#include "tiles.hpp"

namespace tenon::cpu {

// Where a value of a tile is: in the scratch, or in memory that already has the tile's form.
struct Slot {
  bool used = false;
  bool in_memory = false;
  uint32_t element_bytes = 0;
  uint64_t offset = 0;  // in the scratch, in bytes per element of the tile
  Place place{};
};

// An action with its loop, and its values where they are.
struct LaidAction {
  TilePlan::Action::Kind kind;
  bool heavy = false;       // the next tile's operands are fetched meanwhile
  bool past_cache = false;  // a store of a dense result that no cache holds
  TileFn compute = nullptr;
  LoadFn load = nullptr;
  StoreFn store = nullptr;
  Immediate imm{};
  Place place{};
  View view{};
  Slot dst{}, operands[3]{};
};

// One thread's tile, and what it works in.
struct TileRun {
  const Run& run;
  std::byte* scratch;
  uint32_t tile;  // elements a slot of the scratch has room for
  uint64_t begin;
  uint32_t n;

  std::byte* at(const Slot& slot, uint32_t element = 0) const noexcept {
    if (!slot.used) return nullptr;
    if (slot.in_memory) return run.at(slot.place) + (begin + element) * slot.element_bytes;
    return scratch + slot.offset * tile + uint64_t{element} * slot.element_bytes;
  }
};
void act(const LaidAction& action, const TileRun& tile, bool past_cache) noexcept;

class TileStep final : public Step {
 public:
  // 256 to 1,024 floats run alike, 2,048 and more worse: several tiles have to share L1.
  static constexpr uint32_t longest_tile = 512;
  static constexpr uint32_t shortest_tile = 8;
  static constexpr uint64_t scratch_bytes = 64 << 10;  // on the stack of each thread

  TileStep(uint64_t count, uint32_t tile, std::vector<LaidAction> once, std::vector<LaidAction> each,
           std::string engine)
      : count_(count),
        tile_(tile),
        once_(std::move(once)),
        each_(std::move(each)),
        engine_(std::move(engine)) {}

  Status run(const Run& run) const override;
  std::string engine() const override { return engine_; }

 private:
  void run_tiles(const Run& run, uint64_t first, uint64_t end) const noexcept;
  void compute_and_fetch(const LaidAction& action, const TileRun& tile) const noexcept;
  void fetch(const TileRun& tile, uint32_t from, uint32_t to) const noexcept;
  bool writes_in_place(const Run& run) const noexcept;

  uint64_t count_;
  uint32_t tile_;
  std::vector<LaidAction> once_;  // uniform values: once per thread
  std::vector<LaidAction> each_;  // once per tile
  std::string engine_;
};

// The loop of an action, without its slots.
LaidAction with_loops(const TilePlan::Action& action);

// `why` is what kept generated code from it, in a few words, or "". TN_UNSUPPORTED when too many values live at once.
// [any-thread; may block; may fail]
Result<std::unique_ptr<Step>> interpreted_step(const TilePlan& plan, const std::string& why);

}  // namespace tenon::cpu
