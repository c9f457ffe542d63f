// SPDX-License-Identifier: Apache-2.0
// tile_step.hpp: the interpreter of a laid-out tile pass.
//
// Invariant: tiles are independent: any thread may run any of them, in any order.
#pragma once

#include "tiles.hpp"

namespace tenon::cpu {

class TileStep final : public Step {
 public:
  // 256 to 1,024 floats run alike, 2,048 and more worse: several tiles have to share L1.
  static constexpr uint32_t longest_tile = 512;
  static constexpr uint32_t shortest_tile = 8;
  static constexpr uint64_t scratch_bytes = 64 << 10;  // on the stack of each thread

  TileStep(uint64_t count, uint32_t tile, std::vector<TileAction> once, std::vector<TileAction> each)
      : count_(count), tile_(tile), once_(std::move(once)), each_(std::move(each)) {}

  Status run(const Run& run) const override;
  std::string engine() const override { return "tiles"; }

 private:
  void run_tiles(const Run& run, uint64_t first, uint64_t end) const noexcept;
  void act(const TileAction& action, const Run& run, std::byte* scratch, uint64_t begin,
           uint32_t n) const noexcept;

  uint64_t count_;
  uint32_t tile_;
  std::vector<TileAction> once_;  // uniform values: once per thread
  std::vector<TileAction> each_;  // once per tile
};

}  // namespace tenon::cpu
