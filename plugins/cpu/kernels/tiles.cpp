// SPDX-License-Identifier: Apache-2.0
// tiles.cpp: writing a plan down, and handing it to an engine.
//
// Invariant: a value is uniform when all it comes from is, so no engine computes it more than once.
#include "tiles.hpp"

#include "move.hpp"
#include "tile_jit.hpp"
#include "tile_step.hpp"

#include <algorithm>

namespace tenon::cpu {

using Action = TilePlan::Action;
using Value = TilePlan::Value;

Value TileBuilder::load(const Place& place, const View& view) {
  const auto value = static_cast<Value>(plan_.values.size());
  plan_.values.push_back({.reg = class_of(view.dtype()), .uniform = view.uniform() && plan_.count > 1});
  plan_.actions.push_back({.kind = Action::Kind::load, .place = place, .view = view, .dst = value});
  return value;
}

Value TileBuilder::constant(Reg reg, double number) {
  const Value value = compute({.kind = TileOp::Kind::fill, .reg = reg}, reg, none, none, none, {.a = number});
  plan_.values[value].uniform = true;
  return value;
}

Value TileBuilder::compute(const TileOp& op, Reg result, Value a, Value b, Value c, const Immediate& imm) {
  const auto value = static_cast<Value>(plan_.values.size());
  const auto once = [&](Value operand) { return operand == none || plan_.values[operand].uniform; };
  plan_.values.push_back(
      {.reg = result, .uniform = a != none && once(a) && once(b) && once(c), .computed = true});
  plan_.actions.push_back(
      {.kind = Action::Kind::compute, .op = op, .imm = imm, .dst = value, .operands = {a, b, c}});
  return value;
}

void TileBuilder::store(Value value, const Place& place, const View& view, bool may_alias) {
  plan_.actions.push_back({.kind = Action::Kind::store,
                           .late = may_alias,
                           .place = place,
                           .view = view,
                           .operands = {value, none, none}});
}

Result<std::unique_ptr<Step>> TileBuilder::finish() {
  std::stable_partition(plan_.actions.begin(), plan_.actions.end(),
                        [](const Action& action) { return !action.late; });
  std::string reason;
  if (tile_engine.load(std::memory_order_relaxed) != TileEngine::interpreter) {
    if (std::unique_ptr<Step> step = generated_step(plan_, reason)) return step;
  }
  return interpreted_step(plan_, reason);
}

Result<std::unique_ptr<Step>> copy_step(const Place& from, const View& from_view, const Place& to,
                                        const View& to_view) {
  if (from_view.dtype() == to_view.dtype()) return move_step(from, from_view, to, to_view);
  TileBuilder tiles(to_view.count());
  const Value value = tiles.load(from, from_view);
  const Value cast =
      tiles.compute(cast_of(tiles.reg(value), to_view.dtype()), class_of(to_view.dtype()), value);
  tiles.store(cast, to, to_view, false);
  return tiles.finish();
}

}  // namespace tenon::cpu
