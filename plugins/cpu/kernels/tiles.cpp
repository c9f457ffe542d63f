// SPDX-License-Identifier: Apache-2.0
// tiles.cpp: laying a pass out in registers.
//
// A register is free again after the last action that reads it; an action's result never takes a register of its own
// operands, so ops need not expect overlap.
// Invariant: offsets are in bytes per element, so the tile's length is chosen last, to fit the scratch.
#include "tiles.hpp"

#include "move.hpp"
#include "tile_step.hpp"

#include <tenon/author/text.hpp>

#include <algorithm>

namespace tenon::cpu {

using Value = TileBuilder::Value;

Value TileBuilder::load(const Place& place, const View& view) {
  const uint32_t dtype = view.dtype();
  Info info{.reg = class_of(dtype), .uniform = view.uniform() && count_ > 1};
  const auto value = static_cast<Value>(values_.size());
  if (view.contiguous() && !info.uniform && is_native(dtype)) {
    info.slot = {.used = true, .in_memory = true, .element_bytes = view.element_bytes(), .place = place};
  } else {
    plan_.push_back(Planned{
        .action = {.kind = TileAction::Kind::load, .load = load_op(dtype), .place = place, .view = view},
        .dst = value});
  }
  values_.push_back(info);
  return value;
}

Value TileBuilder::constant(Reg reg, double number) {
  const Value value = compute(fill_op(reg), reg, none, none, none, {.a = number});
  values_[value].uniform = true;
  return value;
}

Value TileBuilder::compute(TileFn fn, Reg result, Value a, Value b, Value c, const Immediate& imm) {
  const auto value = static_cast<Value>(values_.size());
  plan_.push_back(Planned{.action = {.kind = TileAction::Kind::compute, .compute = fn, .imm = imm},
                          .dst = value,
                          .operands = {a, b, c}});
  const auto once = [&](Value operand) { return operand == none || values_[operand].uniform; };
  const bool uniform = a != none && once(a) && once(b) && once(c);
  values_.push_back({.reg = result, .uniform = uniform, .computed = true});
  return value;
}

void TileBuilder::store(Value value, const Place& place, const View& view, bool may_alias) {
  plan_.push_back(Planned{.action = {.kind = TileAction::Kind::store,
                                     .store = store_op(view.dtype()),
                                     .place = place,
                                     .view = view},
                          .operands = {value, none, none},
                          .late = may_alias});
}

// A value whose output has the tile's own form is computed right there, and the store falls away.
void TileBuilder::adopt_outputs() {
  std::erase_if(plan_, [&](const Planned& planned) {
    if (planned.action.kind != TileAction::Kind::store || planned.late) return false;
    const View& view = planned.action.view;
    Info& info = values_[planned.operands[0]];
    const bool fits = view.contiguous() && is_native(view.dtype()) && class_of(view.dtype()) == info.reg;
    if (!fits || !info.computed || info.uniform || info.slot.used) return false;
    info.slot = {.used = true,
                 .in_memory = true,
                 .element_bytes = view.element_bytes(),
                 .place = planned.action.place};
    return true;
  });
  std::stable_partition(plan_.begin(), plan_.end(), [](const Planned& planned) { return !planned.late; });
}

void TileBuilder::note_uses() {
  for (size_t i = 0; i < plan_.size(); ++i) {
    for (const Value operand : plan_[i].operands) {
      if (operand != none) values_[operand].last_use = i;
    }
  }
}

void TileBuilder::place(Info& info) {
  if (info.slot.used) return;
  const uint32_t bytes = class_bytes(info.reg);
  info.slot = {.used = true, .element_bytes = bytes, .offset = scratch_};
  if (!free_[bytes].empty() && !info.uniform) {
    info.slot.offset = free_[bytes].back();
    free_[bytes].pop_back();
    return;
  }
  scratch_ += bytes;
}

void TileBuilder::place_values() {
  for (Info& info : values_) {
    if (info.uniform) place(info);
  }
  for (size_t i = 0; i < plan_.size(); ++i) {
    if (plan_[i].dst != none) place(values_[plan_[i].dst]);
    for (const Value operand : plan_[i].operands) {
      if (operand == none) continue;
      Info& info = values_[operand];
      if (info.last_use != i || info.slot.in_memory || info.uniform) continue;
      free_[info.slot.element_bytes].push_back(info.slot.offset);
      info.last_use = SIZE_MAX;  // the same operand may stand twice in one action
    }
  }
}

TileAction TileBuilder::resolved(const Planned& planned) const {
  TileAction action = planned.action;
  if (planned.dst != none) action.dst = values_[planned.dst].slot;
  for (size_t i = 0; i < 3; ++i) {
    if (planned.operands[i] != none) action.operands[i] = values_[planned.operands[i]].slot;
  }
  return action;
}

Result<std::unique_ptr<Step>> TileBuilder::finish() {
  adopt_outputs();
  note_uses();
  place_values();
  uint32_t tile = TileStep::longest_tile;
  while (tile > TileStep::shortest_tile && scratch_ * tile > TileStep::scratch_bytes) tile /= 2;
  if (scratch_ * tile > TileStep::scratch_bytes) {
    return Status(TN_UNSUPPORTED,
                  author::text("the fused values take ", scratch_,
                               " bytes per element at once, and at "
                               "most ",
                               TileStep::scratch_bytes / TileStep::shortest_tile, " fit: cut the fragment"));
  }
  std::vector<TileAction> once, each;
  for (const Planned& planned : plan_) {
    const bool uniform = planned.dst != none && values_[planned.dst].uniform;
    (uniform ? once : each).push_back(resolved(planned));
  }
  return std::unique_ptr<Step>(std::make_unique<TileStep>(count_, tile, std::move(once), std::move(each)));
}

Result<std::unique_ptr<Step>> copy_step(const Place& from, const View& from_view, const Place& to,
                                        const View& to_view) {
  if (from_view.dtype() == to_view.dtype()) return move_step(from, from_view, to, to_view);
  TileBuilder tiles(to_view.count());
  const Value value = tiles.load(from, from_view);
  const TileFn cast = cast_op(tiles.reg(value), to_view.dtype());
  tiles.store(tiles.compute(cast, class_of(to_view.dtype()), value), to, to_view, false);
  return tiles.finish();
}

}  // namespace tenon::cpu
