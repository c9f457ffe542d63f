// SPDX-License-Identifier: Apache-2.0
// chain.hpp: the elementwise nodes before or after a kernel's own arithmetic, run on one stretch of memory at a time.
//
// A chain before a kernel loads operands, computes, and offers what the kernel reads. A chain after one is handed what the
// kernel computed (the hole), computes, and stores. Both may store what else is wanted. With no nodes, and a type that is
// computed as it is stored, a chain is nothing but an address.
// Where the processor takes it, a chain of two actions or more is generated code (chain_jit.cpp): one pass with values in
// registers. Else each action passes over a tile in L1.
// Invariant: every value is rounded to its dtype before anything reads it, as it would be in memory, so a node gives the
// same bits in a chain and on its own, and both engines give the same.
#pragma once

#include "half_rows.hpp"
#include "random.hpp"
#include "view.hpp"

#include <memory>

namespace tenon::cpu {

class Chain {
 public:
  using Value = uint32_t;
  static constexpr Value none = UINT32_MAX;
  static constexpr uint32_t slot_bytes = 4096;  // a tile of one value; several share L1
  static constexpr uint32_t most_slots = 16;
  static constexpr uint32_t most_results = 4;

  // A thread's own room for one chain.
  struct Scratch {
    alignas(64) std::byte bytes[most_slots * slot_bytes];
  };

  // All values are of class `reg`: f32 or f64.
  explicit Chain(Reg reg = Reg::f32) : reg_(reg) {}
  // The longest stretch of one call.
  uint32_t tile() const noexcept { return slot_bytes / class_bytes(reg_); }

  // Elements lie densely at `place`.
  Value load(const Place& place, uint32_t dtype);
  // Elements lie in the order of a view, which may repeat them.
  Value load(const Place& place, const View& view);
  Value hole();
  Value compute(const TileOp& op, const Immediate& imm, Value a, Value b = none, Value c = none);
  // What a dropout leaves of `a`; elements are counted in the chain's order, which is the logical one then.
  Value thin(const Draw& draw, Value a);
  // `exact`: the dtype holds the value as it is.
  void store(Value value, const Place& place, uint32_t dtype, uint64_t elements, bool exact);
  // The next thing that the kernel reads.
  void result(Value value) { results_.push_back(value); }
  // After the last of these. False when too many values are alive: the chain must not be run.
  bool finish();
  bool empty() const noexcept { return values_.empty(); }

  // The results at [at, at + n), n ≤ tile: in memory, in `scratch`, or at to[i] where that is given and needed. Without
  // `stores` nothing is written to memory.
  struct Tiles {
    const void* value[most_results];

    // Each by itself. Two in one load, wider than the stores that they came by, would wait until all stores before have left:
    // of a row's results that go past the caches that is as long as memory takes for them.
    const void* of(size_t i) const noexcept {
      const void* one = value[i];
      asm("" : "+r"(one));
      return one;
    }
  };
  Tiles read(const Run& run, uint64_t at, uint32_t n, Scratch& scratch, bool stores,
             void* const* to = nullptr) const;
  // The same for a row of any length; `rows` has room for each result.
  Tiles read_row(const Run& run, uint64_t at, uint64_t n, Scratch& scratch, void* const* rows) const;

  // Where the kernel is to put [at, at + n), n ≤ tile, before `write`. A row goes to `row` or straight to memory.
  void* target(const Run& run, uint64_t at, Scratch& scratch) const;
  void* target_row(const Run& run, uint64_t at, void* row) const;
  void write(const Run& run, uint64_t at, uint32_t n, Scratch& scratch) const;
  void write_row(const Run& run, uint64_t at, uint64_t n, Scratch& scratch, const void* row) const;

 private:
  struct Info {
    bool in_memory = false;
    Place place{};
    uint32_t slot = 0;
  };
  struct Action {
    enum class Kind : uint32_t { load, gather, compute, thin, store };
    Kind kind;
    TileOp op{};                 // of a compute
    TileFn fn = nullptr;         // its loop
    LoadFn gather = nullptr;     // of a load through a view
    WidenRow widen = nullptr;    // of a load of halves
    NarrowRow narrow = nullptr;  // of a store of halves
    Immediate imm{};
    Place place{};
    View view{};
    Draw draw{};
    uint32_t dtype = 0;  // of a load or a store
    uint32_t element_bytes = 0;
    bool exact = false;  // the dtype of a store holds the value
    bool past_cache = false;
    Value out = none, operands[3] = {none, none, none};
  };

  // Where one stretch is.
  struct Stretch {
    const Run& run;
    uint64_t at;
    std::byte* scratch;
    const void* hole;
    void* const* to;
  };
  void* address(const Stretch& stretch, Value value) const noexcept;
  void act(const Stretch& stretch, uint32_t n, bool stores) const noexcept;
  static void fetch_ahead(const std::byte* stretch, uint32_t bytes) noexcept;
  void put(const Stretch& stretch, const Action& action, uint32_t n) const noexcept;
  bool is_result(Value value) const noexcept;
  void adopt_outputs();
  uint32_t place_in_slots();

  struct Code;
  struct Script;
  class Writer;
  friend class Joined;
  // nullptr: action by action. [may throw bad_alloc]
  std::shared_ptr<const Code> generated(bool stores) const;
  void run(const Code& code, const Stretch& stretch, uint32_t n) const noexcept;

  Reg reg_;
  std::vector<Info> values_;
  std::vector<Action> actions_;
  std::vector<Value> results_;
  Value hole_ = none;
  std::shared_ptr<const Code> code_[2]{};  // by whether it stores
};

}  // namespace tenon::cpu
