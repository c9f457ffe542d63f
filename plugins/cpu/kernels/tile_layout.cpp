// SPDX-License-Identifier: Apache-2.0
// tile_layout.cpp: laying a plan out in the interpreter's registers.
//
// A register is free again after the last action that reads it; an action's result never takes a register of its own
// operands, so ops need not expect overlap.
// Invariant: offsets are in bytes per element, so the tile's length is chosen last, to fit the scratch.
#include "isa.hpp"
#include "past_cache.hpp"
#include "tile_step.hpp"

#include <tenon/author/text.hpp>

namespace tenon::cpu {
namespace {

using Action = TilePlan::Action;
using Value = TilePlan::Value;

class Layout {
 public:
  explicit Layout(const TilePlan& plan) : plan_(plan), places_(plan.values.size()) {}

  Result<std::unique_ptr<Step>> step(std::string engine) {
    use_memory();
    note_uses();
    place_values();
    uint32_t tile = TileStep::longest_tile;
    while (tile > TileStep::shortest_tile && scratch_ * tile > TileStep::scratch_bytes) tile /= 2;
    if (scratch_ * tile > TileStep::scratch_bytes) {
      return Status(
          TN_UNSUPPORTED,
          author::text("the fused values take ", scratch_, " bytes per element at once, and at most ",
                       TileStep::scratch_bytes / TileStep::shortest_tile, " fit: cut the fragment"));
    }
    std::vector<LaidAction> once, each;
    for (const Action* action : left_) (plan_.once(*action) ? once : each).push_back(laid(*action));
    return std::unique_ptr<Step>(
        std::make_unique<TileStep>(plan_.count, tile, std::move(once), std::move(each), std::move(engine)));
  }

 private:
  struct Spot {
    Slot slot{};
    size_t last_use = 0;
  };

  static bool is_tile(const View& view) { return view.contiguous() && is_native(view.dtype()); }
  static Slot memory_of(const Action& action) {
    return {
        .used = true, .in_memory = true, .element_bytes = action.view.element_bytes(), .place = action.place};
  }

  // A load of memory that has the tile's own form falls away, and so does a store of a value that is computed right there.
  void use_memory() {
    for (const Action& action : plan_.actions) {
      if (action.kind == Action::Kind::load && is_tile(action.view) && !plan_.once(action)) {
        places_[action.dst].slot = memory_of(action);
      } else if (action.kind == Action::Kind::store && fits(action)) {
        places_[action.operands[0]].slot = memory_of(action);
      } else {
        left_.push_back(&action);
      }
    }
  }
  bool fits(const Action& store) const {
    const TilePlan::Info& value = plan_.values[store.operands[0]];
    return is_tile(store.view) && !store.late && !goes_past_cache(store.view) &&
           class_of(store.view.dtype()) == value.reg && value.computed && !value.uniform &&
           !places_[store.operands[0]].slot.used;
  }

  void note_uses() {
    for (size_t i = 0; i < left_.size(); ++i) {
      for (const Value operand : left_[i]->operands) {
        if (operand != TilePlan::none) places_[operand].last_use = i;
      }
    }
  }

  void place(Value value) {
    Slot& slot = places_[value].slot;
    if (slot.used) return;
    const uint32_t bytes = class_bytes(plan_.values[value].reg);
    slot = {.used = true, .element_bytes = bytes, .offset = scratch_};
    if (!free_[bytes].empty() && !plan_.values[value].uniform) {
      slot.offset = free_[bytes].back();
      free_[bytes].pop_back();
      return;
    }
    scratch_ += bytes;
  }

  void place_values() {
    for (Value value = 0; value < plan_.values.size(); ++value) {
      if (plan_.values[value].uniform) place(value);
    }
    for (size_t i = 0; i < left_.size(); ++i) {
      if (left_[i]->dst != TilePlan::none) place(left_[i]->dst);
      for (const Value operand : left_[i]->operands) {
        if (operand == TilePlan::none) continue;
        Spot& spot = places_[operand];
        if (spot.last_use != i || spot.slot.in_memory || plan_.values[operand].uniform) continue;
        free_[spot.slot.element_bytes].push_back(spot.slot.offset);
        spot.last_use = SIZE_MAX;  // the same operand may stand twice in one action
      }
    }
  }

  LaidAction laid(const Action& action) const {
    LaidAction out = with_loops(action);
    if (action.dst != TilePlan::none) out.dst = places_[action.dst].slot;
    for (size_t i = 0; i < 3; ++i) {
      if (action.operands[i] != TilePlan::none) out.operands[i] = places_[action.operands[i]].slot;
    }
    return out;
  }

  const TilePlan& plan_;
  std::vector<Spot> places_;
  std::vector<const Action*> left_;
  std::vector<uint64_t> free_[9];  // offsets of registers not in use, by element bytes
  uint64_t scratch_ = 0;           // bytes per element
};

}  // namespace

LaidAction with_loops(const Action& action) {
  LaidAction out{.kind = action.kind, .imm = action.imm, .place = action.place, .view = action.view};
  switch (action.kind) {
    case Action::Kind::load:
      out.load = load_op(action.view.dtype());
      break;
    case Action::Kind::compute:
      out.compute = tile_fn(action.op);
      out.heavy = is_heavy(action.op);
      break;
    case Action::Kind::store:
      out.store = store_op(action.view.dtype());
      out.past_cache = goes_past_cache(action.view);
      break;
  }
  return out;
}

Result<std::unique_ptr<Step>> interpreted_step(const TilePlan& plan, const std::string& why) {
  std::string engine = author::text("tiles:", isa_name(isa()));
  if (!why.empty()) engine += author::text(" (no jit: ", why, ")");
  return Layout(plan).step(std::move(engine));
}

}  // namespace tenon::cpu
