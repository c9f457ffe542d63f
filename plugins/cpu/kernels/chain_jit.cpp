// SPDX-License-Identifier: Apache-2.0
// chain_jit.cpp: a chain as generated code: what it loads, computes and stores in one pass, its values in registers.
//
// Invariant: code gives what the loops give, bit for bit; a chain of a single action has none.
#include "chain.hpp"

#if TENON_CPU_JIT
#include "chain_writer.hpp"
#include "tiles.hpp"
#endif

namespace tenon::cpu {

#if TENON_CPU_JIT

std::shared_ptr<const Chain::Code> Chain::Script::code() const {
  if (tile_engine.load(std::memory_order_relaxed) == TileEngine::interpreter) return nullptr;
  std::string why;
  auto assembled = jit::assemble(program, isa(), why);
  if (assembled == nullptr) return nullptr;
  return std::make_shared<const Code>(Code{pointers, std::move(assembled)});
}

std::shared_ptr<const Chain::Code> Chain::generated(bool stores) const {
  Script script;
  Writer writer(*this, script, stores, true);
  return writer.wanted() < 2 || !writer.write() ? nullptr : script.code();
}

void Chain::run(const Code& code, const Stretch& stretch, uint32_t n) const noexcept {
  std::byte* pointers[jit::most_memories];
  for (size_t i = 0; i < code.pointers.size(); ++i) {
    const Script::Pointer& pointer = code.pointers[i];
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
