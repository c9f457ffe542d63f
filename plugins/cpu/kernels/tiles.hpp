// SPDX-License-Identifier: Apache-2.0
// tiles.hpp: elementwise work as one pass over tiles: load, compute, compute …, store, all in L1.
//
// A TileBuilder is told loads, ops and stores in an order in which they can run, and makes the step that interprets them
// tile by tile.
// Invariant: values live in registers of one tile; nothing between a load and a store touches memory outside the scratch,
// except that a value may live where it came from or in the output it is stored to.
#pragma once

#include "step.hpp"
#include "tile_ops.hpp"
#include "view.hpp"

#include <memory>

namespace tenon::cpu {

// Where a value of a tile is: in the scratch, or in memory that already has the tile's form.
struct Slot {
  bool used = false;
  bool in_memory = false;
  uint32_t element_bytes = 0;
  uint64_t offset = 0;  // in the scratch, in bytes per element of the tile
  Place place{};
};

struct TileAction {
  enum class Kind : uint32_t { load, compute, store };
  Kind kind;
  TileFn compute = nullptr;
  LoadFn load = nullptr;
  StoreFn store = nullptr;
  Immediate imm{};
  Place place{};  // of a load or store
  View view{};
  Slot dst{}, operands[3]{};
};

class TileBuilder {
 public:
  using Value = uint32_t;
  static constexpr Value none = UINT32_MAX;

  // `count` is how many elements every view of this pass orders.
  explicit TileBuilder(uint64_t count) : count_(count) {}

  Value load(const Place& place, const View& view);
  // `number` everywhere, as the class computes it.
  Value constant(Reg reg, double number);
  Value compute(TileFn fn, Reg result, Value a, Value b = none, Value c = none, const Immediate& imm = {});
  // Writes `value`. An output that may be the memory of an input is written after all loads of its tile.
  void store(Value value, const Place& place, const View& view, bool may_alias);
  Reg reg(Value value) const { return values_[value].reg; }

  // The finished step; the builder is spent. TN_UNSUPPORTED when too many values live at once. [may fail]
  Result<std::unique_ptr<Step>> finish();

 private:
  struct Info {
    Reg reg;
    bool uniform = false;  // computed once, not per tile; keeps its register
    bool computed = false;
    size_t last_use = 0;
    Slot slot{};
  };
  struct Planned {
    TileAction action;
    Value dst = none;
    Value operands[3] = {none, none, none};
    bool late = false;
  };

  void adopt_outputs();
  void note_uses();
  void place_values();
  void place(Info& info);
  TileAction resolved(const Planned& planned) const;

  uint64_t count_;
  std::vector<Info> values_;
  std::vector<Planned> plan_;
  std::vector<uint64_t> free_[9];  // offsets of registers not in use, by element bytes
  uint64_t scratch_ = 0;           // bytes per element
};

// One tensor copied to another, element by element in the views' order, cast when the dtypes differ. [may fail]
Result<std::unique_ptr<Step>> copy_step(const Place& from, const View& from_view, const Place& to,
                                        const View& to_view);

}  // namespace tenon::cpu
