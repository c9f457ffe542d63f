// SPDX-License-Identifier: Apache-2.0
// program.cpp: see program.hpp.
#include "program.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace tenon::test {
namespace {

constexpr size_t max_operations = 512;
using Past = std::bitset<max_operations>;  // operations that are over before a point

bool collide(const Use& a, const Use& b) {
  return a.memory == b.memory && a.begin < b.end && b.begin < a.end && (a.write || b.write);
}

// Follows a program and knows, for each point, what is over before it.
class Judge {
 public:
  void follow(const Instruction& each) {
    switch (each.kind) {
      case Instruction::record:
        if (values_.size() <= each.value) values_.resize(each.value + 1);
        values_[each.value] = streams_[each.stream];
        return;
      case Instruction::wait:
        streams_[each.stream] |= values_[each.value];
        return;
      case Instruction::sync:
        host_ |= values_[each.value];
        return;
      case Instruction::replace:
        host_ |= streams_[each.stream];
        streams_[each.stream].reset();
        return;
      default:
        enqueue(each);
    }
  }
  // An operation before `uses` on `stream` that collides and is in no order with it.
  std::optional<size_t> unordered(uint32_t stream, const std::vector<Use>& uses) const {
    const Past past = streams_[stream] | host_;
    for (size_t i = 0; i < operations_.size(); ++i) {
      if (past[i]) continue;
      for (const Use& theirs : operations_[i].uses) {
        for (const Use& mine : uses) {
          if (collide(theirs, mine)) return i;
        }
      }
    }
    return {};
  }
  uint32_t stream_of(size_t operation) const { return operations_[operation].stream; }
  bool raced() const { return raced_; }

 private:
  void enqueue(const Instruction& each) {
    raced_ = raced_ || unordered(each.stream, each.uses).has_value();
    streams_[each.stream] |= host_;
    streams_[each.stream].set(operations_.size());
    operations_.push_back(each);
  }
  std::array<Past, program_streams> streams_{};
  Past host_;
  std::vector<Past> values_;
  std::vector<Instruction> operations_;
  bool raced_ = false;
};

uint64_t below(std::mt19937_64& random, uint64_t limit) { return random() % limit; }

Use random_use(std::mt19937_64& random, uint64_t bytes, bool write) {
  const uint64_t begin = 32 * below(random, (program_bytes - bytes) / 32 + 1);
  return {static_cast<uint32_t>(below(random, program_memories)), begin, begin + bytes, write};
}

Instruction random_operation(std::mt19937_64& random) {
  for (;;) {
    Instruction out{.stream = static_cast<uint32_t>(below(random, program_streams))};
    const uint64_t bytes = 32 * (1 + below(random, 6));
    switch (below(random, 3)) {
      case 0:
        out.kind = Instruction::fill;
        out.uses = {random_use(random, bytes, true)};
        return out;
      case 1:
        out.kind = Instruction::copy;
        out.uses = {random_use(random, bytes, true), random_use(random, bytes, false)};
        break;
      default:
        out.kind = Instruction::launch;
        out.uses = {random_use(random, 64, false), random_use(random, 64, false),
                    random_use(random, 64, true)};
    }
    bool apart = true;
    for (size_t i = 0; i < out.uses.size(); ++i) {
      for (size_t j = 0; j < i; ++j) apart = apart && !collide(out.uses[i], out.uses[j]);
    }
    if (apart) return out;
  }
}

class Maker {
 public:
  explicit Maker(std::mt19937_64& random) : random_(random) {}
  void add(Instruction instruction) {
    judge_.follow(instruction);
    program_.instructions.push_back(std::move(instruction));
  }
  uint32_t record(uint32_t stream) {
    add({.kind = Instruction::record, .stream = stream, .value = program_.values});
    return program_.values++;
  }
  // Orders `operation` after all it collides with: by waits, now and then by the host.
  void add_ordered(Instruction operation) {
    while (const auto before = judge_.unordered(operation.stream, operation.uses)) {
      const uint32_t source = judge_.stream_of(*before), value = record(source);
      if (below(random_, 8) == 0) {
        add({.kind = Instruction::sync, .stream = source, .value = value});
      } else {
        add({.kind = Instruction::wait, .stream = operation.stream, .other = source, .value = value});
      }
    }
    add(std::move(operation));
  }
  Program take() { return std::move(program_); }

 private:
  std::mt19937_64& random_;
  Judge judge_;
  Program program_;
};

}  // namespace

bool races(const Program& program, std::optional<size_t> without) {
  Judge judge;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    if (i != without) judge.follow(program.instructions[i]);
  }
  return judge.raced();
}

Program make_program(std::mt19937_64& random, uint32_t operations) {
  Maker maker(random);
  for (uint32_t i = 0; i < std::min<uint32_t>(operations, max_operations); ++i) {
    maker.add_ordered(random_operation(random));
    if (below(random, 32) == 0) {
      maker.add(
          {.kind = Instruction::replace, .stream = static_cast<uint32_t>(below(random, program_streams))});
    }
  }
  return maker.take();
}

}  // namespace tenon::test
