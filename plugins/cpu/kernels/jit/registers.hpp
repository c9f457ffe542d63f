// SPDX-License-Identifier: Apache-2.0
// registers.hpp: which register holds which value of a program, operation by operation.
//
// Values are handed out in order, and a register is free again at the last operation that reads it, so that this operation
// may write its result there. A comparison that only selections read may live in a mask register, where there are some.
// Invariant: constants hold no register: instructions read them from memory.
#pragma once

#include "program.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace tenon::cpu::jit {

class Registers {
 public:
  // Has the registers from `first` on; masks likewise.
  Registers(const Program& program, int first, int vectors, int first_mask, int masks)
      : program_(&program),
        last_use_(program.operations.size(), 0),
        home_(program.operations.size(), -1),
        in_mask_(program.operations.size(), false) {
    for (uint32_t i = 0; i < program.operations.size(); ++i) note_uses(i);
    for (int r = vectors; r-- > 0;) free_vectors_.push_back(first + r);
    for (int r = masks; r-- > 0;) free_masks_.push_back(first_mask + r);
  }

  // How many vector registers are enough for the program.
  static int needed(const Program& program) {
    const Registers uses(program, 0, 0, 0, 0);
    int live = 0, most = 1;
    for (uint32_t i = 0; i < program.operations.size(); ++i) {
      const Operation& o = program.operations[i];
      const bool makes = o.op != Op::constant && o.op != Op::store;
      if (makes) most = std::max(most, ++live);  // before any operand is freed
      for (int k = 0; k < 3; ++k) {
        const uint32_t operand = o.operands[k];
        const bool again = (k > 0 && operand == o.operands[0]) || (k > 1 && operand == o.operands[1]);
        if (operand != none && !again && uses.dies(operand, i)) --live;
      }
      if (makes && uses.last_use_[i] <= i) --live;
    }
    return most;
  }

  bool in_mask(uint32_t value) const { return in_mask_[value]; }
  bool is_constant(uint32_t value) const { return program_->operations[value].op == Op::constant; }
  int of(uint32_t value) const { return home_[value]; }
  bool dies(uint32_t value, uint32_t at) const { return !is_constant(value) && last_use_[value] == at; }

  // Frees what operation `at` reads last, and gives its result a register, perhaps one of those.
  int take(uint32_t at) {
    release_operands(at);
    return place(at);
  }
  // The same, in the register of an operand that dies there.
  int take_over(uint32_t at, uint32_t operand) {
    const int r = home_[operand];
    home_[operand] = -1;
    release_operands(at);
    home_[at] = r;
    drop_if_unread(at);
    return r;
  }
  // The same, in a register of its own.
  int take_apart(uint32_t at) {
    const int r = place(at);
    release_operands(at);
    return r;
  }
  void release_operands(uint32_t at) {
    for (const uint32_t operand : program_->operations[at].operands) {
      if (operand == none || !dies(operand, at) || home_[operand] < 0) continue;
      give_back(operand);
    }
  }

 private:
  void note_uses(uint32_t at) {
    const Operation& o = program_->operations[at];
    in_mask_[at] = o.op == Op::compare;
    for (int k = 0; k < 3; ++k) {
      const uint32_t operand = o.operands[k];
      if (operand == none) continue;
      last_use_[operand] = at;
      if (o.op != Op::select || k > 0) in_mask_[operand] = false;
    }
  }
  int place(uint32_t at) {
    if (free_masks_.empty()) in_mask_[at] = false;
    std::vector<int>& free = in_mask_[at] ? free_masks_ : free_vectors_;
    if (free.empty()) throw std::length_error("too many values at once");
    const int r = home_[at] = free.back();
    free.pop_back();
    drop_if_unread(at);
    return r;
  }
  void give_back(uint32_t value) {
    (in_mask_[value] ? free_masks_ : free_vectors_).push_back(home_[value]);
    home_[value] = -1;
  }
  // What nobody reads is written all the same, and gone.
  void drop_if_unread(uint32_t at) {
    if (last_use_[at] <= at) give_back(at);
  }

  const Program* program_;
  std::vector<uint32_t> last_use_;
  std::vector<int> home_;
  std::vector<bool> in_mask_;
  std::vector<int> free_vectors_, free_masks_;
};

}  // namespace tenon::cpu::jit
