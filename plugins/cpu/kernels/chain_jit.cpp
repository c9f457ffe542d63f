// SPDX-License-Identifier: Apache-2.0
// chain_jit.cpp: a chain as generated code: what it loads, computes and stores in one pass, its values in registers.
//
// Gathers and dropouts are the loops' alone, and so is a chain that has one of them, or a single action.
// Invariant: an element's operands are loaded and its results stored in the order of the chain's actions.
#include "chain.hpp"

#if TENON_CPU_JIT
#include "jit/code.hpp"
#include "jit/translation.hpp"
#include "tiles.hpp"
#endif

namespace tenon::cpu {

#if TENON_CPU_JIT

struct Chain::Code {
  // What a pointer of the code leads to: a value where it is, or an operand or a result in memory.
  struct Pointer {
    Value value = none;
    Place place{};
    uint32_t element_bytes = 0;
    bool is_operand = false;  // of memory
  };
  std::vector<Pointer> pointers{};
  std::unique_ptr<const jit::Code> code{};
};

class Chain::Generation {
 public:
  Generation(const Chain& chain, bool stores)
      : chain_(chain), stores_(stores), wanted_(chain.actions_.size()), values_(chain.values_.size()) {}

  std::shared_ptr<const Code> code() {
    if (find_wanted() < 2) return nullptr;
    for (size_t i = 0; i < wanted_.size(); ++i) {
      if (wanted_[i] && !add(chain_.actions_[i])) return nullptr;
    }
    if (out_->pointers.size() > jit::most_memories) return nullptr;
    std::string why;
    out_->code = jit::assemble(program_, isa(), why);
    return out_->code != nullptr ? out_ : nullptr;
  }

 private:
  // A value that an action makes where it is to be in the end.
  bool is_kept(Value value) const {
    const bool in_memory = chain_.values_[value].in_memory;
    return in_memory ? stores_ : chain_.is_result(value);
  }

  // How many actions something comes of.
  size_t find_wanted() {
    std::vector<bool> read(chain_.values_.size());
    size_t count = 0;
    for (size_t i = wanted_.size(); i-- > 0;) {
      const Action& action = chain_.actions_[i];
      const bool stores = action.kind == Action::Kind::store;
      wanted_[i] = stores ? stores_ : read[action.out] || is_kept(action.out);
      if (!wanted_[i]) continue;
      ++count;
      for (const Value operand : action.operands)
        if (operand != none) read[operand] = true;
    }
    return count;
  }

  uint32_t own_dtype() const { return chain_.reg_ == Reg::f64 ? TN_DTYPE_f64 : TN_DTYPE_f32; }
  uint32_t add(const Code::Pointer& pointer, const jit::Memory& memory) {
    out_->pointers.push_back(pointer);
    return program_.add(memory);
  }

  // What no action has made stands in memory, or is the hole.
  const jit::Translated& value(Value value) {
    jit::Translated& found = values_[value];
    if (found.node.program == nullptr)
      found = jit::load(program_, add({.value = value}, {.dtype = own_dtype()}));
    return found;
  }

  bool add(const Action& action) {
    switch (action.kind) {
      case Action::Kind::load:
        values_[action.out] = jit::load(
            program_, add({.place = action.place, .element_bytes = action.element_bytes, .is_operand = true},
                          {.dtype = action.dtype}));
        break;
      case Action::Kind::compute:
        if (!compute(action)) return false;
        break;
      case Action::Kind::store:
        jit::store(program_,
                   add({.place = action.place, .element_bytes = action.element_bytes},
                       {.dtype = action.dtype, .written = true, .past_cache = action.past_cache}),
                   value(action.operands[0]), action.exact);
        return true;
      case Action::Kind::gather:
      case Action::Kind::thin:
        return false;
    }
    if (is_kept(action.out))
      jit::store(program_, add({.value = action.out}, {.dtype = own_dtype(), .written = true}),
                 values_[action.out]);
    return true;
  }

  bool compute(const Action& action) {
    if (action.op.kind == TileOp::Kind::fill) {
      values_[action.out] = jit::constant(program_, chain_.reg_, action.imm.a);
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
  const bool stores_;
  std::vector<bool> wanted_;  // of the actions
  std::vector<jit::Translated> values_;
  jit::Program program_;
  std::shared_ptr<Code> out_ = std::make_shared<Code>();
};

std::shared_ptr<const Chain::Code> Chain::generated(bool stores) const {
  if (tile_engine.load(std::memory_order_relaxed) == TileEngine::interpreter) return nullptr;
  return Generation(*this, stores).code();
}

void Chain::run(const Code& code, const Stretch& stretch, uint32_t n) const noexcept {
  std::byte* pointers[jit::most_memories];
  for (size_t i = 0; i < code.pointers.size(); ++i) {
    const Code::Pointer& pointer = code.pointers[i];
    if (pointer.value != none) {
      pointers[i] = static_cast<std::byte*>(address(stretch, pointer.value));
      continue;
    }
    pointers[i] = stretch.run.at(pointer.place) + stretch.at * pointer.element_bytes;
    if (pointer.is_operand) fetch_ahead(pointers[i], n * pointer.element_bytes);
  }
  code.code->run(pointers, n, true);
}

#else

struct Chain::Code {};

std::shared_ptr<const Chain::Code> Chain::generated(bool) const { return nullptr; }
void Chain::run(const Code&, const Stretch&, uint32_t) const noexcept {}

#endif

}  // namespace tenon::cpu
