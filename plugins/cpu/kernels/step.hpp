// SPDX-License-Identifier: Apache-2.0
// step.hpp: one pass of a compiled program, and where its operands are.
//
// Invariant: a step is immutable and owns no memory that a run writes; a run's memory is its bindings and its workspace.
#pragma once

#include "../engine/command.hpp"

#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace tenon::cpu {

// Where a tensor's bytes are, known at compile time up to the launch's addresses.
struct Place {
  enum class Kind : uint32_t { none, binding, workspace, constant };
  Kind kind = Kind::none;
  uint32_t binding = 0;
  uint64_t offset = 0;                  // in bytes
  const std::byte* constant = nullptr;  // owned by the program
  int64_t per_row = 0;                  // in bytes: how much further it lies for each row before Run::row

  static Place at_binding(uint32_t index) { return {.kind = Kind::binding, .binding = index}; }
  static Place in_workspace(uint64_t offset) { return {.kind = Kind::workspace, .offset = offset}; }
  static Place of_constant(const std::byte* bytes) { return {.kind = Kind::constant, .constant = bytes}; }
  // So many bytes further on.
  Place plus(uint64_t bytes) const {
    Place out = *this;
    out.offset += bytes;
    return out;
  }
  bool operator==(const Place&) const = default;
};

// What one run has.
struct Run {
  std::byte* const* bindings;
  std::byte* workspace;
  const Team& team;
  uint64_t row = 0;  // of a run that takes rows a few at a time, the first of these

  // A constant is never written: whoever places an output makes sure of it.
  std::byte* at(const Place& place) const noexcept {
    const int64_t offset = static_cast<int64_t>(place.offset) + static_cast<int64_t>(row) * place.per_row;
    switch (place.kind) {
      case Place::Kind::binding:
        return bindings[place.binding] + offset;
      case Place::Kind::workspace:
        return workspace + offset;
      case Place::Kind::constant:
        return const_cast<std::byte*>(place.constant) + offset;
      case Place::Kind::none:
        break;
    }
    return nullptr;
  }
};

class Step {
 public:
  virtual ~Step() = default;
  // [worker thread; blocks; may fail]
  virtual Status run(const Run& run) const = 0;
  // "tiles", "onednn:…": part of tn_kernel_info.engine.
  virtual std::string engine() const = 0;
};

using Steps = std::vector<std::unique_ptr<Step>>;

// A step over rows, any of which may be run on their own between `open` and `close`, in ascending order: so it can follow a
// product that is made a few rows at a time.
class RangedStep : public Step {
 public:
  virtual void open(const Run&) const {}
  virtual void run_rows(const Run& run, uint64_t first, uint64_t end) const = 0;
  virtual void close(const Run&) const {}
};

// The least work that is worth another thread: elements of an elementwise pass.
inline constexpr uint64_t parallel_grain = 32 << 10;

}  // namespace tenon::cpu
