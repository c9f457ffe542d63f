// SPDX-License-Identifier: Apache-2.0
// joined.cpp: writing the code, and running it.
//
// Invariant: what changes beside is read through one pointer and written through another, so that the last few elements,
// which are computed in a copy, are copied both ways.
#include "joined.hpp"

#include <algorithm>

#if TENON_CPU_JIT
#include "chain_writer.hpp"
#endif

namespace tenon::cpu {

#if TENON_CPU_JIT

namespace {

jit::Translated of(Joined::Number number) { return {Reg::f32, number.node}; }

// What a chain reads side by side is asked for this far ahead, all together: the processor by itself goes no further than a page.
constexpr uint32_t ahead_of_all = 4096, cache_line = 64;

void ask_ahead(std::span<jit::Memory> memory) {
  const auto comes_from_afar = [](const jit::Memory& one) {
    return !one.uniform && !one.written && !one.near;
  };
  const auto streams = static_cast<uint32_t>(std::ranges::count_if(memory, comes_from_afar));
  for (jit::Memory& one : memory)
    if (comes_from_afar(one)) one.ahead = ahead_of_all / streams / cache_line * cache_line;
}

}  // namespace

Joined::Joined(const Chain& in, bool stores, const Chain* out, std::initializer_list<Beside> beside,
               const Formula& formula, uint64_t row_bytes) {
  if (in.reg_ != Reg::f32 || (out != nullptr && out->reg_ != Reg::f32)) return;
  Chain::Script script;
  Chain::Writer before(in, script, stores, false);
  if (!before.write()) return;
  std::vector<Number> results, numbers;
  for (size_t i = 0; i < in.results_.size(); ++i) results.push_back(before.result(i).f32());
  for (const Beside kind : beside) {
    const jit::Memory memory{
        .dtype = TN_DTYPE_f32,
        .uniform = kind == Beside::one,
        .near = true,
        .ahead = kind == Beside::row && row_bytes < INT32_MAX ? static_cast<uint32_t>(row_bytes) : 0};
    const auto which = static_cast<uint32_t>(numbers.size());
    numbers.push_back(jit::load(script.program, script.add({.beside = which}, memory)).f32());
  }
  const Number value = formula(results, numbers);
  for (uint32_t i = 0; i < numbers.size(); ++i) {
    if (beside.begin()[i] != Beside::changed) continue;
    const jit::Memory memory{.dtype = TN_DTYPE_f32, .written = true, .near = true};
    jit::store(script.program, script.add({.beside = i}, memory), of(numbers[i]));
  }
  if (out != nullptr) {
    Chain::Writer after(*out, script, true, false);
    after.fill_hole(of(value));
    if (!after.write()) return;
  }
  if (!in.results_.empty()) ask_ahead(script.program.memory);
  code_ = script.code();
}

void Joined::run(const Run& run, uint64_t at, uint64_t n,
                 std::initializer_list<const void*> beside) const noexcept {
  std::byte* pointers[jit::most_memories];
  for (size_t i = 0; i < code_->pointers.size(); ++i) {
    const Chain::Script::Pointer& pointer = code_->pointers[i];
    if (pointer.beside != Chain::none)
      pointers[i] = static_cast<std::byte*>(const_cast<void*>(beside.begin()[pointer.beside]));
    else
      pointers[i] = run.at(pointer.place) + at * pointer.element_bytes;
  }
  code_->code->run(pointers, n, true);
}

#else

Joined::Joined(const Chain&, bool, const Chain*, std::initializer_list<Beside>, const Formula&, uint64_t) {}
void Joined::run(const Run&, uint64_t, uint64_t, std::initializer_list<const void*>) const noexcept {}

#endif

}  // namespace tenon::cpu
