// SPDX-License-Identifier: Apache-2.0
// chain_writer.hpp: a chain's actions, written down as part of a program.
//
// Gathers and dropouts are the loops' alone: a chain that has one of them is not written.
// Invariant: an element's operands are loaded and its results stored in the order of the chain's actions.
#pragma once

#include "chain.hpp"
#include "jit/code.hpp"
#include "jit/translation.hpp"

namespace tenon::cpu {

// A program, and where each pointer of its code leads for a stretch: into memory, to a value that has none in memory, or to
// what else the one who runs it has at hand.
struct Chain::Script {
  struct Pointer {
    Place place{};
    uint32_t element_bytes = 0;
    Value value = none;
    uint32_t beside = none;
    bool is_operand = false;  // that nothing has touched yet
  };
  jit::Program program{};
  std::vector<Pointer> pointers{};

  uint32_t add(const Pointer& pointer, const jit::Memory& memory) {
    pointers.push_back(pointer);
    return program.add(memory);
  }
  // nullptr where the processor, or the plugin's option `engine`, takes none. [may throw bad_alloc]
  std::shared_ptr<const Code> code() const;
};

struct Chain::Code {
  std::vector<Script::Pointer> pointers{};
  std::unique_ptr<const jit::Code> code{};
};

class Chain::Writer {
 public:
  // `keeps`: results that are not in memory are stored for a kernel that reads them there. The three outlive the writer.
  Writer(const Chain& chain, Script& script, bool stores, bool keeps)
      : chain_(chain),
        script_(script),
        stores_(stores),
        keeps_(keeps),
        wanted_(chain.actions_.size()),
        values_(chain.values_.size()) {
    find_wanted();
  }

  // How many actions something comes of.
  size_t wanted() const { return static_cast<size_t>(std::count(wanted_.begin(), wanted_.end(), true)); }

  // What the kernel computed, before write().
  void fill_hole(const jit::Translated& value) {
    if (chain_.hole_ == none) return;
    values_[chain_.hole_] = value;
    if (chain_.values_[chain_.hole_].in_memory) keep(chain_.hole_);
  }

  // False where an action has no code.
  bool write() {
    for (size_t i = 0; i < wanted_.size(); ++i) {
      if (wanted_[i] && !add(chain_.actions_[i])) return false;
    }
    return true;
  }

  const jit::Translated& result(size_t i) { return value(chain_.results_[i]); }

 private:
  // A value that an action makes where it is to be in the end.
  bool is_kept(Value value) const {
    const bool in_memory = chain_.values_[value].in_memory;
    return in_memory ? stores_ : keeps_ && chain_.is_result(value);
  }

  void find_wanted() {
    std::vector<bool> read(chain_.values_.size());
    for (const Value value : chain_.results_) read[value] = true;
    for (size_t i = wanted_.size(); i-- > 0;) {
      const Action& action = chain_.actions_[i];
      const bool stores = action.kind == Action::Kind::store;
      wanted_[i] = stores ? stores_ : read[action.out] || is_kept(action.out);
      if (!wanted_[i]) continue;
      for (const Value operand : action.operands)
        if (operand != none) read[operand] = true;
    }
  }

  uint32_t own_dtype() const { return chain_.reg_ == Reg::f64 ? TN_DTYPE_f64 : TN_DTYPE_f32; }
  Script::Pointer pointer_to(Value value) const {
    const Info& info = chain_.values_[value];
    if (!info.in_memory) return {.value = value};
    return {.place = info.place, .element_bytes = class_bytes(chain_.reg_)};
  }

  // What no action has made stands in memory, or is the hole.
  const jit::Translated& value(Value value) {
    jit::Translated& found = values_[value];
    if (found.node.program == nullptr)
      found = jit::load(script_.program, script_.add(pointer_to(value), {.dtype = own_dtype()}));
    return found;
  }
  void keep(Value value) {
    jit::store(script_.program, script_.add(pointer_to(value), {.dtype = own_dtype(), .written = true}),
               values_[value]);
  }

  bool add(const Action& action) {
    switch (action.kind) {
      case Action::Kind::load:
        values_[action.out] = jit::load(
            script_.program,
            script_.add({.place = action.place, .element_bytes = action.element_bytes, .is_operand = true},
                        {.dtype = action.dtype}));
        break;
      case Action::Kind::compute:
        if (!compute(action)) return false;
        break;
      case Action::Kind::store:
        jit::store(script_.program,
                   script_.add({.place = action.place, .element_bytes = action.element_bytes},
                               {.dtype = action.dtype, .written = true, .past_cache = action.past_cache}),
                   value(action.operands[0]), action.exact);
        return true;
      case Action::Kind::gather:
      case Action::Kind::thin:
        return false;
    }
    if (is_kept(action.out)) keep(action.out);
    return true;
  }

  bool compute(const Action& action) {
    if (action.op.kind == TileOp::Kind::fill) {
      values_[action.out] = jit::constant(script_.program, chain_.reg_, action.imm.a);
      return true;
    }
    jit::Translated operands[3];
    for (size_t i = 0; i < 3; ++i)
      if (action.operands[i] != none) operands[i] = value(action.operands[i]);
    std::string why;
    return jit::compute({.kind = TilePlan::Action::Kind::compute, .op = action.op, .imm = action.imm},
                        operands, values_[action.out], why);
  }

  const Chain& chain_;
  Script& script_;
  const bool stores_, keeps_;
  std::vector<bool> wanted_;  // of the actions
  std::vector<jit::Translated> values_;
};

}  // namespace tenon::cpu
