// SPDX-License-Identifier: Apache-2.0
// tile_jit.cpp: the step around generated code, and the plan's way into it.
//
// Invariant: a stretch's indirect operands are in the scratch before its code runs, and its indirect results leave after.
#include "tile_jit.hpp"

#if TENON_CPU_JIT
#include "jit/code.hpp"
#include "jit/translation.hpp"
#include "past_cache.hpp"
#include "tile_step.hpp"

#include <tenon/author/names.hpp>
#include <tenon/author/text.hpp>
#endif

namespace tenon::cpu {

#if TENON_CPU_JIT

namespace {

using Action = TilePlan::Action;
using Kind = Action::Kind;
using Value = TilePlan::Value;

// What a pointer of the code leads to: a place, element by element, or a slot of the scratch.
struct Pointer {
  Slot slot{};
  bool uniform = false;
  bool past_cache = false;
};

// Everything but the code.
struct Outside {
  std::vector<Pointer> pointers;
  std::vector<LaidAction> once, before, after;
  uint64_t scratch = 0;  // bytes per element
  uint64_t ones = 0;     // bytes of what is the same for all elements, and is there once

  Slot slot(uint32_t element_bytes) {
    const Slot made{.used = true, .element_bytes = element_bytes, .offset = scratch};
    scratch += element_bytes;
    return made;
  }
  Slot single(uint32_t element_bytes) {
    const Slot made{.used = true, .element_bytes = element_bytes, .offset = ones};
    ones += 8;
    return made;
  }
};

class JitStep final : public Step {
 public:
  // Where nothing passes through the scratch a stretch is only as short as threads want it.
  static constexpr uint32_t longest_stretch = 8192;
  static constexpr uint64_t most_ones = 4096;  // bytes

  JitStep(uint64_t count, Outside outside, std::unique_ptr<const jit::Code> code)
      : count_(count),
        stretch_(outside.scratch > 0 ? TileStep::longest_tile : longest_stretch),
        outside_(std::move(outside)),
        code_(std::move(code)),
        engine_(author::text("jit:", isa_name(isa()))) {
    while (outside_.scratch * stretch_ > TileStep::scratch_bytes) stretch_ /= 2;
  }

  Status run(const Run& run) const override {
    const uint64_t stretches = (count_ + stretch_ - 1) / stretch_;
    run.team.run(stretches, std::max<uint64_t>(1, parallel_grain / stretch_),
                 [&](uint64_t first, uint64_t end) { run_stretches(run, first, end); });
    return {};
  }
  std::string engine() const override { return engine_; }

 private:
  void run_stretches(const Run& run, uint64_t first, uint64_t end) const noexcept {
    alignas(64) std::byte scratch[TileStep::scratch_bytes], ones[most_ones];
    const TileRun single{.run = run, .scratch = ones, .tile = 1, .begin = 0, .n = 1};
    for (const LaidAction& action : outside_.once) act(action, single, false);
    TileRun tile{.run = run, .scratch = scratch, .tile = stretch_, .begin = 0, .n = stretch_};
    const bool past_cache = !writes_in_place(run);
    for (uint64_t s = first; s < end; ++s) {
      tile.begin = s * stretch_;
      tile.n = static_cast<uint32_t>(std::min<uint64_t>(stretch_, count_ - tile.begin));
      for (const LaidAction& action : outside_.before) act(action, tile, false);
      std::byte* pointers[jit::most_memories];
      for (size_t i = 0; i < outside_.pointers.size(); ++i) {
        const Pointer& pointer = outside_.pointers[i];
        pointers[i] = (pointer.uniform ? single : tile).at(pointer.slot);
      }
      code_->run(pointers, tile.n, past_cache);
      for (const LaidAction& action : outside_.after) act(action, tile, past_cache);
    }
    finish_past_cache();
  }

  // Whether a result that could go past the caches lies where an operand does: its lines are in the cache already.
  bool writes_in_place(const Run& run) const noexcept {
    const auto& all = outside_.pointers;
    return std::any_of(all.begin(), all.end(), [&](const Pointer& out) {
      return out.past_cache && std::count_if(all.begin(), all.end(), [&](const Pointer& other) {
                                 return other.slot.in_memory &&
                                        run.at(other.slot.place) == run.at(out.slot.place);
                               }) > 1;
    });
  }

  uint64_t count_;
  uint32_t stretch_;
  Outside outside_;
  std::unique_ptr<const jit::Code> code_;
  std::string engine_;
};

// The plan, action by action: what code does itself goes into the program, the rest around it.
class Generation {
 public:
  Generation(const TilePlan& plan, std::string& why)
      : plan_(plan), why_(why), values_(plan.values.size()), slots_(plan.values.size()) {}

  std::unique_ptr<Step> step() {
    for (const Action& action : plan_.actions) {
      if (!add(action)) return nullptr;
    }
    if (outside_.scratch * TileStep::shortest_tile > TileStep::scratch_bytes)
      return refuse("too many strided operands");
    if (outside_.ones > JitStep::most_ones) return refuse("too many scalars");
    auto code = jit::assemble(program_, isa(), why_);
    if (code == nullptr) return nullptr;
    return std::make_unique<JitStep>(plan_.count, std::move(outside_), std::move(code));
  }

 private:
  std::nullptr_t refuse(std::string why) {
    why_ = std::move(why);
    return nullptr;
  }

  bool add(const Action& action) {
    if (plan_.once(action)) {
      add_once(action);
      return true;
    }
    switch (action.kind) {
      case Kind::load:
        return add_load(action);
      case Kind::compute:
        return add_compute(action);
      case Kind::store:
        break;
    }
    return add_store(action);
  }

  void add_once(const Action& action) {
    LaidAction laid = with_loops(action);
    laid.dst = slots_[action.dst] = outside_.single(class_bytes(plan_.values[action.dst].reg));
    for (size_t i = 0; i < 3; ++i) {
      if (action.operands[i] != TilePlan::none) laid.operands[i] = slots_[action.operands[i]];
    }
    outside_.once.push_back(laid);
  }

  uint32_t add_pointer(const Pointer& pointer, const jit::Memory& memory) {
    outside_.pointers.push_back(pointer);
    return program_.add(memory);
  }
  static Slot dense(const Action& action) {
    return {
        .used = true, .in_memory = true, .element_bytes = action.view.element_bytes(), .place = action.place};
  }
  // What a class's values are in the scratch.
  static uint32_t own_dtype(Reg reg) {
    return reg == Reg::f32 ? TN_DTYPE_f32 : reg == Reg::f64 ? TN_DTYPE_f64 : TN_DTYPE_bool;
  }
  bool takes(Reg reg) {
    if (jit::translates(reg)) return true;
    why_ = reg == Reg::u64 ? "u64 values" : "integers";
    return false;
  }

  bool add_load(const Action& action) {
    const Reg reg = plan_.values[action.dst].reg;
    const bool direct = action.view.contiguous() && jit::reads(action.view.dtype());
    if (!direct && !takes(reg)) return false;
    if (direct) {
      values_[action.dst] =
          jit::load(program_, add_pointer({.slot = dense(action)}, {.dtype = action.view.dtype()}));
      return true;
    }
    LaidAction laid = with_loops(action);
    laid.dst = outside_.slot(class_bytes(reg));
    outside_.before.push_back(laid);
    values_[action.dst] = jit::load(program_, add_pointer({.slot = laid.dst}, {.dtype = own_dtype(reg)}));
    return true;
  }

  // A value for the program; what is the same for all elements is read from the scratch.
  bool operand(Value value, jit::Translated& out) {
    const TilePlan::Info& info = plan_.values[value];
    if (info.uniform && !takes(info.reg)) return false;
    if (info.uniform && values_[value].node.program == nullptr) {
      const Pointer pointer{.slot = slots_[value], .uniform = true};
      values_[value] =
          jit::load(program_, add_pointer(pointer, {.dtype = own_dtype(info.reg), .uniform = true}));
    }
    out = values_[value];
    return true;
  }

  bool add_compute(const Action& action) {
    jit::Translated operands[3];
    for (size_t i = 0; i < 3; ++i) {
      if (action.operands[i] == TilePlan::none) continue;
      if (!operand(action.operands[i], operands[i])) return false;
      if (action.op.kind != TileOp::Kind::cast && !takes(operands[i].reg)) return false;
    }
    if (!takes(plan_.values[action.dst].reg)) return false;
    return jit::compute(action, operands, values_[action.dst], why_);
  }

  bool add_store(const Action& action) {
    jit::Translated value;
    if (!operand(action.operands[0], value) || !takes(value.reg)) return false;
    if (action.view.contiguous()) {
      const bool past_cache = goes_past_cache(action.view);
      jit::store(program_,
                 add_pointer({.slot = dense(action), .past_cache = past_cache},
                             {.dtype = action.view.dtype(), .written = true, .past_cache = past_cache}),
                 value);
      return true;
    }
    LaidAction laid = with_loops(action);
    laid.operands[0] = outside_.slot(class_bytes(value.reg));
    jit::store(program_,
               add_pointer({.slot = laid.operands[0]}, {.dtype = own_dtype(value.reg), .written = true}),
               value);
    outside_.after.push_back(laid);
    return true;
  }

  const TilePlan& plan_;
  std::string& why_;
  jit::Program program_;
  Outside outside_;
  std::vector<jit::Translated> values_;
  std::vector<Slot> slots_;  // of uniform values
};

}  // namespace

std::unique_ptr<Step> generated_step(const TilePlan& plan, std::string& why) {
  return Generation(plan, why).step();
}

const char* why_no_jit() noexcept { return ""; }

#else

std::unique_ptr<Step> generated_step(const TilePlan&, std::string& why) {
  why = why_no_jit();
  return nullptr;
}

const char* why_no_jit() noexcept { return "not built in"; }

#endif

}  // namespace tenon::cpu
