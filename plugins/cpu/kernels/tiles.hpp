// SPDX-License-Identifier: Apache-2.0
// tiles.hpp: elementwise work as one pass over tiles: load, compute, compute …, store, all in L1 or in registers.
//
// A TileBuilder is told loads, ops and stores in an order in which they can run. That is a TilePlan, and one of two engines
// makes a step of it: generated code (tile_jit.hpp), or the interpreter (tile_step.hpp), which takes every plan.
// Invariant: both engines give the same bits; nothing between a load and a store touches memory outside the scratch, except
// that a value may live where it came from or in the output it is stored to.
#pragma once

#include "step.hpp"
#include "tile_ops.hpp"
#include "view.hpp"

#include <atomic>
#include <memory>

namespace tenon::cpu {

// Who runs elementwise passes that are built from now on: whichever is faster, or the one that was asked for. What generated
// code does not take is interpreted all the same.
enum class TileEngine : uint8_t { automatic, interpreter, jit };
inline std::atomic<TileEngine> tile_engine{TileEngine::automatic};

struct TilePlan {
  using Value = uint32_t;
  static constexpr Value none = UINT32_MAX;

  struct Info {
    Reg reg;
    bool uniform = false;  // the same for every element
    bool computed = false;
  };
  struct Action {
    enum class Kind : uint8_t { load, compute, store };
    Kind kind;
    bool late = false;  // a store that comes after all loads of its tile
    TileOp op{};        // of a compute
    Immediate imm{};
    Place place{};  // of a load or store
    View view{};
    Value dst = none;
    Value operands[3] = {none, none, none};
  };

  uint64_t count = 0;  // elements of every view
  std::vector<Info> values;
  std::vector<Action> actions;  // those that are late come last

  // A load or a computation that is done once, not for each tile.
  bool once(const Action& action) const { return action.dst != none && values[action.dst].uniform; }
};

class TileBuilder {
 public:
  using Value = TilePlan::Value;
  static constexpr Value none = TilePlan::none;

  // `count` is how many elements every view of this pass orders.
  explicit TileBuilder(uint64_t count) { plan_.count = count; }

  Value load(const Place& place, const View& view);
  // `number` everywhere, as the class computes it.
  Value constant(Reg reg, double number);
  Value compute(const TileOp& op, Reg result, Value a, Value b = none, Value c = none,
                const Immediate& imm = {});
  // Writes `value`. An output that may be the memory of an input is written after all loads of its tile.
  void store(Value value, const Place& place, const View& view, bool may_alias);
  Reg reg(Value value) const { return plan_.values[value].reg; }

  // The finished step; the builder is spent. TN_UNSUPPORTED when too many values live at once. [may fail]
  Result<std::unique_ptr<Step>> finish();

 private:
  TilePlan plan_;
};

// One tensor copied to another, element by element in the views' order, cast when the dtypes differ. [may fail]
Result<std::unique_ptr<Step>> copy_step(const Place& from, const View& from_view, const Place& to,
                                        const View& to_view);

}  // namespace tenon::cpu
