// SPDX-License-Identifier: Apache-2.0
// random_test.cpp: the hazard detector against a slow judge: no accusation where the waits suffice, one where they do not.
#include "layered.hpp"
#include "program.hpp"

#include "support/full.hpp"
#include "support/seed.hpp"

#include <array>
#include <optional>

using namespace tenon;
using namespace tenon::test;

namespace {

// Runs a program through a layered plugin. A replaced stream keeps its place; values of the one before are over.
class Machine {
 public:
  explicit Machine(const Caller& call) : call_(call), device_(call.open()), kernel_(call.add(device_, 16)) {
    for (auto& stream : streams_) stream = call.stream(device_);
    for (auto& memory : memories_) {
      memory = call.alloc(device_, program_bytes);
      call.fill(streams_[0], span_of(memory, 0, program_bytes), 1.0f);
    }
    call.sync(streams_[0]);
  }
  ~Machine() {
    for (tn_stream* stream : streams_) call_.destroy(stream);
    for (tn_memory* memory : memories_) call_.free(memory);
    call_.destroy(kernel_);
    call_.close(device_);
  }
  void run(const Program& program, std::optional<size_t> without = {}) {
    values_.assign(program.values, {});
    for (size_t i = 0; i < program.instructions.size(); ++i) {
      if (i != without) run(program.instructions[i], static_cast<float>(i % 7));
    }
  }
  std::vector<float> contents() {
    std::vector<float> out(program_memories * program_bytes / sizeof(float));
    for (tn_stream* stream : streams_) call_.sync(stream);
    for (uint32_t i = 0; i < program_memories; ++i) {
      call_.copy(streams_[0], host_of(out.data() + i * program_bytes / sizeof(float), program_bytes),
                 span_of(memories_[i], 0, program_bytes));
    }
    call_.sync(streams_[0]);
    return out;
  }

 private:
  struct Value {
    tn_stream* stream = nullptr;
    uint64_t value = 0;
  };
  tn_span span(const Use& use) const {
    return span_of(memories_[use.memory], use.begin, use.end - use.begin);
  }
  void run(const Instruction& each, float number) {
    tn_stream*& stream = streams_[each.stream];
    switch (each.kind) {
      case Instruction::fill:
        return call_.fill(stream, span(each.uses[0]), number);
      case Instruction::copy:
        return call_.copy(stream, span(each.uses[0]), span(each.uses[1]));
      case Instruction::launch:
        return call_.launch(kernel_, stream, {span(each.uses[0]), span(each.uses[1]), span(each.uses[2])});
      case Instruction::record:
        values_[each.value] = {stream, call_.record(stream)};
        return;
      case Instruction::wait:
        return call_.wait(stream, values_[each.value].stream, values_[each.value].value);
      case Instruction::sync: {
        tn_error error = no_error();
        REQUIRE(call_.plugin().stream->sync(stream, values_[each.value].value, TN_TIMEOUT_NEVER, &error) ==
                TN_OK);
        return;
      }
      case Instruction::replace:
        call_.destroy(stream);
        stream = call_.stream(device_);
    }
  }

  const Caller& call_;
  tn_device* device_;
  tn_kernel* kernel_;
  std::array<tn_stream*, program_streams> streams_{};
  std::array<tn_memory*, program_memories> memories_{};
  std::vector<Value> values_;
};

std::string findings_of(const Program& program, std::optional<size_t> without) {
  Layered on("validate");
  Machine(*on.call).run(program, without);
  return on.found();
}

}  // namespace

TEST_CASE(
    "hazards: random programs whose waits suffice are never accused, and those with a needed wait removed "
    "always are") {
  auto random = generator(11);
  const int programs = full_or("programs", 200, 5000);
  int needed = 0, needless = 0;
  for (int i = 0; i < programs; ++i) {
    CAPTURE(i);
    const Program program = make_program(random, 20 + i % 60);
    REQUIRE_FALSE(races(program));
    REQUIRE(findings_of(program, {}) == "");
    std::vector<size_t> waits;
    for (size_t at = 0; at < program.instructions.size(); ++at) {
      const auto kind = program.instructions[at].kind;
      if (kind == Instruction::wait || kind == Instruction::sync) waits.push_back(at);
    }
    if (waits.empty()) continue;
    const size_t without = waits[random() % waits.size()];
    CAPTURE(without);
    const bool matters = races(program, without);
    ++(matters ? needed : needless);
    const std::string found = findings_of(program, without);
    REQUIRE(contains(found, "hazard: ") == matters);
  }
  std::printf("removed waits that mattered: %d, that did not: %d\n", needed, needless);
  CHECK(needed > programs / 4);
  CHECK(needless > 0);
}

TEST_CASE(
    "hazards: random programs on asynchronous streams give the results of synchronous ones, unaccused") {
  auto random = generator(12);
  const int programs = full_or("programs", 30, 500);
  for (int i = 0; i < programs; ++i) {
    CAPTURE(i);
    const Program program = make_program(random, 40);
    Layered slow("validate"), fast("validate", {.asynchronous = true});
    Machine one(*slow.call), two(*fast.call);
    one.run(program);
    two.run(program);
    CHECK(one.contents() == two.contents());
    CHECK(fast.found() == "");
  }
}
