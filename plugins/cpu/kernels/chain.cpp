// SPDX-License-Identifier: Apache-2.0
// chain.cpp: laying a chain out, and running it.
//
// Invariant: a value has one address for each stretch; an op's result shares none with its operands. A slot is used again
// once nobody reads the value in it any more.
#include "chain.hpp"

#include "past_cache.hpp"

#include <tenon/author/names.hpp>

#include <algorithm>

namespace tenon::cpu {

using Value = Chain::Value;

Value Chain::load(const Place& place, uint32_t dtype) {
  const auto value = static_cast<Value>(values_.size());
  values_.push_back({.in_memory = is_native(dtype), .place = place});
  if (!is_native(dtype)) {
    actions_.push_back({.kind = Action::Kind::load,
                        .widen = widen_row(dtype),
                        .place = place,
                        .dtype = dtype,
                        .element_bytes = author::dtype_bits(dtype) / 8,
                        .out = value});
  }
  return value;
}

Value Chain::load(const Place& place, const View& view) {
  if (view.contiguous()) return load(place, view.dtype());
  const auto value = static_cast<Value>(values_.size());
  values_.push_back({});
  actions_.push_back({.kind = Action::Kind::gather,
                      .gather = load_op(view.dtype()),
                      .place = place,
                      .view = view,
                      .out = value});
  return value;
}

Value Chain::hole() {
  hole_ = static_cast<Value>(values_.size());
  values_.push_back({});
  return hole_;
}

Value Chain::compute(const TileOp& op, const Immediate& imm, Value a, Value b, Value c) {
  const auto value = static_cast<Value>(values_.size());
  values_.push_back({});
  actions_.push_back({.kind = Action::Kind::compute,
                      .op = op,
                      .fn = tile_fn(op),
                      .imm = imm,
                      .out = value,
                      .operands = {a, b, c}});
  return value;
}

Value Chain::thin(const Draw& draw, Value a) {
  const auto value = static_cast<Value>(values_.size());
  values_.push_back({});
  actions_.push_back({.kind = Action::Kind::thin, .draw = draw, .out = value, .operands = {a, none, none}});
  return value;
}

void Chain::store(Value value, const Place& place, uint32_t dtype, uint64_t elements, bool exact) {
  const uint64_t bytes = author::dtype_bytes(dtype, elements);
  actions_.push_back({.kind = Action::Kind::store,
                      .narrow = exact ? pack_row(dtype) : narrow_row(dtype),
                      .place = place,
                      .dtype = dtype,
                      .element_bytes = author::dtype_bits(dtype) / 8,
                      .exact = exact,
                      .past_cache = bytes >= past_cache_bytes,
                      .operands = {value, none, none}});
}

bool Chain::is_result(Value value) const noexcept {
  return std::find(results_.begin(), results_.end(), value) != results_.end();
}

// A value that goes to memory of its own type is computed right there, unless the kernel reads it: it may want it more
// often than it may be written.
void Chain::adopt_outputs() {
  std::erase_if(actions_, [&](const Action& action) {
    if (action.kind != Action::Kind::store || action.narrow != nullptr || action.past_cache) return false;
    const Value value = action.operands[0];
    if (values_[value].in_memory || is_result(value)) return false;
    values_[value].in_memory = true;
    values_[value].place = action.place;
    return true;
  });
}

// What the kernel reads or fills keeps its slot; any other value has one from its action to its last reader.
uint32_t Chain::place_in_slots() {
  std::vector<size_t> last_read(values_.size(), 0);
  for (size_t i = 0; i < actions_.size(); ++i) {
    for (const Value operand : actions_[i].operands) {
      if (operand != none) last_read[operand] = i;
    }
  }
  std::vector<bool> placed(values_.size()), kept(values_.size());
  std::vector<uint32_t> free;
  uint32_t slots = 0;
  const auto place = [&](Value value) {
    Info& info = values_[value];
    if (placed[value] || info.in_memory) return;
    placed[value] = true;
    info.slot = free.empty() ? slots++ : free.back();
    if (!free.empty()) free.pop_back();
  };
  const auto keep = [&](Value value) {
    kept[value] = true;
    place(value);
  };
  if (hole_ != none) keep(hole_);
  for (const Value value : results_) keep(value);
  for (size_t i = 0; i < actions_.size(); ++i) {
    if (actions_[i].out != none) place(actions_[i].out);
    for (const Value operand : actions_[i].operands) {
      if (operand == none || kept[operand] || last_read[operand] != i || values_[operand].in_memory) continue;
      last_read[operand] = SIZE_MAX;  // the same operand may stand twice in one action
      free.push_back(values_[operand].slot);
    }
  }
  return slots;
}

bool Chain::finish() {
  adopt_outputs();
  if (place_in_slots() > most_slots || results_.size() > most_results) return false;
  code_[false] = generated(false);
  code_[true] = generated(true);
  return true;
}

void* Chain::address(const Stretch& stretch, Value value) const noexcept {
  if (value == none) return nullptr;
  const Info& info = values_[value];
  if (info.in_memory) return stretch.run.at(info.place) + stretch.at * class_bytes(reg_);
  if (value == hole_ && stretch.hole != nullptr) return const_cast<void*>(stretch.hole);
  for (size_t i = 0; stretch.to != nullptr && i < results_.size(); ++i) {
    if (results_[i] == value) return stretch.to[i];
  }
  return stretch.scratch + info.slot * slot_bytes;
}

// Streams take turns at a stretch, so what the processor would fetch ahead by itself ends with each: the next one is asked for.
void Chain::fetch_ahead(const std::byte* stretch, uint32_t bytes) noexcept {
  constexpr uint32_t line = 64;
  for (uint32_t at = 0; at < bytes; at += line) __builtin_prefetch(stretch + bytes + at);
}

void Chain::act(const Stretch& stretch, uint32_t n, bool stores) const noexcept {
  if (const Code* const code = code_[stores].get()) return run(*code, stretch, n);
  for (const Action& action : actions_) {
    switch (action.kind) {
      case Action::Kind::load: {
        const std::byte* const from = stretch.run.at(action.place) + stretch.at * action.element_bytes;
        fetch_ahead(from, n * action.element_bytes);
        action.widen(from, static_cast<float*>(address(stretch, action.out)), n);
        break;
      }
      case Action::Kind::gather:
        action.gather(action.view, stretch.run.at(action.place), stretch.at, n, address(stretch, action.out));
        break;
      case Action::Kind::thin:
        tenon::cpu::thin(action.draw, stretch.run, reg_, stretch.at, n, address(stretch, action.operands[0]),
                         address(stretch, action.out));
        break;
      case Action::Kind::compute:
        action.fn(address(stretch, action.out), address(stretch, action.operands[0]),
                  address(stretch, action.operands[1]), address(stretch, action.operands[2]), n, action.imm);
        break;
      case Action::Kind::store:
        if (stores) put(stretch, action, n);
        break;
    }
  }
}

void Chain::put(const Stretch& stretch, const Action& action, uint32_t n) const noexcept {
  alignas(64) std::byte narrowed[slot_bytes / 2];
  std::byte* const to = stretch.run.at(action.place) + stretch.at * action.element_bytes;
  const auto* from = static_cast<const std::byte*>(address(stretch, action.operands[0]));
  if (action.narrow != nullptr) {
    std::byte* const half = action.past_cache ? narrowed : to;
    action.narrow(reinterpret_cast<const float*>(from), half, n);
    from = half;
  }
  if (action.past_cache)
    write_past_cache(to, from, n * action.element_bytes);
  else if (from != to)
    std::memcpy(to, from, n * action.element_bytes);
}

Chain::Tiles Chain::read(const Run& run, uint64_t at, uint32_t n, Scratch& scratch, bool stores,
                         void* const* to) const {
  const Stretch stretch{.run = run, .at = at, .scratch = scratch.bytes, .hole = nullptr, .to = to};
  act(stretch, n, stores);
  Tiles tiles{};
  for (size_t i = 0; i < results_.size(); ++i) tiles.value[i] = address(stretch, results_[i]);
  return tiles;
}

Chain::Tiles Chain::read_row(const Run& run, uint64_t at, uint64_t n, Scratch& scratch,
                             void* const* rows) const {
  // Results in memory are whole rows already.
  if (actions_.empty()) return read(run, at, 0, scratch, true);
  Tiles first{};
  for (uint64_t done = 0; done < n; done += tile()) {
    void* to[most_results] = {};
    for (size_t i = 0; i < results_.size(); ++i)
      to[i] = static_cast<std::byte*>(rows[i]) + done * class_bytes(reg_);
    const auto now = static_cast<uint32_t>(std::min<uint64_t>(tile(), n - done));
    const Tiles tiles = read(run, at + done, now, scratch, true, to);
    for (size_t i = 0; i < results_.size() && done == 0; ++i) first.value[i] = tiles.of(i);
  }
  return first;
}

void* Chain::target(const Run& run, uint64_t at, Scratch& scratch) const {
  return address({.run = run, .at = at, .scratch = scratch.bytes, .hole = nullptr, .to = nullptr}, hole_);
}

void* Chain::target_row(const Run& run, uint64_t at, void* row) const {
  return address({.run = run, .at = at, .scratch = nullptr, .hole = row, .to = nullptr}, hole_);
}

void Chain::write(const Run& run, uint64_t at, uint32_t n, Scratch& scratch) const {
  act({.run = run, .at = at, .scratch = scratch.bytes, .hole = nullptr, .to = nullptr}, n, true);
}

void Chain::write_row(const Run& run, uint64_t at, uint64_t n, Scratch& scratch, const void* row) const {
  for (uint64_t done = 0; done < n && !actions_.empty(); done += tile()) {
    const Stretch stretch{.run = run,
                          .at = at + done,
                          .scratch = scratch.bytes,
                          .hole = static_cast<const std::byte*>(row) + done * class_bytes(reg_),
                          .to = nullptr};
    act(stretch, static_cast<uint32_t>(std::min<uint64_t>(tile(), n - done)), true);
  }
}

}  // namespace tenon::cpu
