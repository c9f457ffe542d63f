// SPDX-License-Identifier: Apache-2.0
// translation.hpp: a tile plan's arithmetic as a program.
//
// Invariant: what is not translated is refused before any code is made, with the op or class that stands in the way.
#pragma once

#include "../tiles.hpp"
#include "traced.hpp"

#include <string>

namespace tenon::cpu::jit {

// A value of a class: a number of f32 or f64, a mask, or whole numbers of 4 bytes, which only casts read.
struct Translated {
  Reg reg = Reg::f32;
  Node node{};

  Traced<float> f32() const { return Traced<float>(node); }
  Traced<double> f64() const { return Traced<double>(node); }
  TracedMask mask() const { return {node}; }
};

// Whether code computes with values of this class, and whether it can at least read and cast those of this dtype.
bool translates(Reg reg) noexcept;
bool reads(uint32_t dtype) noexcept;

// What memory[index], of a dtype that it reads, holds.
Translated load(Program& program, uint32_t index);
// The action's result, or false with the reason in `why`. All operands that it has are translated.
bool compute(const TilePlan::Action& action, const Translated* operands, Translated& out, std::string& why);
// `number` in all lanes, as f32 or f64.
Translated constant(Program& program, Reg reg, double number);
// Writes the value to memory[index], rounded once to its dtype; `exact`: it holds the value as it is.
void store(Program& program, uint32_t index, const Translated& value, bool exact = false);

}  // namespace tenon::cpu::jit
