// SPDX-License-Identifier: Apache-2.0
// amx_operand.cpp: where packed panels are.
#include "amx_operand.hpp"

#if defined(__x86_64__)

namespace tenon::cpu {

TileOperand::TileOperand(Builder& builder, const PanelSet& panels, const Place& given, bool read_once,
                         const Block& block, uint64_t slots)
    : set_(panels),
      given_(given),
      when_(given.kind == Place::Kind::constant ? When::compile
            : read_once                         ? When::within
                                                : When::first),
      slot_elements_(uint64_t{block.panels} * block.steps * panel_step) {
  if (when_ == When::compile)
    packed_ = constant_panels(builder);
  else
    packed_ = builder.scratch(when_ == When::first ? set_.bytes() : slots * slot_elements_ * sizeof(BF16));
}

Place TileOperand::constant_panels(Builder& builder) const {
  constexpr uint64_t line = 64;
  auto bytes = std::make_unique<std::byte[]>(set_.bytes() + line);
  const uint64_t skip = (line - reinterpret_cast<uintptr_t>(bytes.get()) % line) % line;
  auto* const to = reinterpret_cast<BF16*>(bytes.get() + skip);
  const auto* const from = reinterpret_cast<const BF16*>(given_.constant + given_.offset);
  for (uint64_t task = 0; task < set_.tasks(); ++task) set_.pack(from, task, to);
  return builder.constant(std::move(bytes)).plus(skip);
}

const BF16* TileOperand::panels(const Run& run, uint64_t slot, uint64_t batch, uint32_t block, uint32_t first,
                                uint32_t end) const noexcept {
  if (when_ != When::within) return packed_at(run, batch, block, first);
  BF16* const room = packed(run) + slot * slot_elements_;
  set_.pack_panels(values(run), batch, block, first, end, room);
  return room;
}

}  // namespace tenon::cpu

#endif
