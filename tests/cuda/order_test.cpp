// SPDX-License-Identifier: Apache-2.0
// order_test.cpp: random programs through the CUDA plugin, on a driver that runs what it may in the worst order.
//
// Each program is issued over several streams, with the waits it needs and no others, and must compute what it computes one
// step after the other. With one of the plugin's waits dropped by the driver it must not, or this test shows nothing.
// Some waits are for a promise instead of a value; the host keeps it when it has seen the value reached.
#include "order_program.hpp"
#include "support/full.hpp"
#include "support/seed.hpp"
#include "support/temp_folder.hpp"
#include "support/world.hpp"

#include <cuda.h>
#include <dlfcn.h>

#include <deque>
#include <string>

using namespace cuda_test;
namespace tt = tenon::test;

namespace {

constexpr size_t steps = 120;
constexpr uint64_t cell_bytes = sizeof(Cell);

// Settings of the driver for the next world. The plugin opens the very same library.
void configure(const std::string& settings) {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  REQUIRE((library != nullptr));
  const auto set = reinterpret_cast<CUresult (*)(const char*)>(dlsym(library, "fakecuda_configure"));
  REQUIRE((set != nullptr));
  REQUIRE(set(settings.c_str()) == CUDA_SUCCESS);
}

// Kernels are compiled once for all worlds of this process.
const std::string& cache() {
  static const tt::TempFolder folder;
  return folder.path();
}

struct Addition : tt::FragmentBuilder {
  Addition() : FragmentBuilder("a + b") {
    const auto shape = {static_cast<int64_t>(lanes)};
    const uint32_t a = input(TN_DTYPE_i32, shape), b = input(TN_DTYPE_i32, shape);
    node(TN_OP_add, {a, b}, {output(TN_DTYPE_i32, shape)});
  }
};

// What a host call is given; it lives until the end of the run.
struct Call {
  const Cell* from;
  Cell* to;
};
void turn(void* argument) {
  const Call& call = *static_cast<Call*>(argument);
  *call.to = turned(*call.from);
}
void keep(void* argument) {
  const Call& call = *static_cast<Call*>(argument);
  *call.to = *call.from;
}

class Runner {
 public:
  explicit Runner(uint64_t choices)
      : random_(choices), device_(tt::open_device()), add_(tt::compile(device_, Addition().fragment())) {
    for (auto& stream : streams_) stream = tt::make_stream(device_);
    promises_ = tt::make_stream(device_);
    for (uint32_t i = 0; i < cell_count; ++i)
      cells_[i] = tt::allocate(device_, cell_bytes, is_pinned(i) ? TN_MEMORY_HOST : TN_MEMORY_DEVICE);
  }

  // What each step has written, as its own stream found it right behind it.
  std::vector<Cell> run(const std::vector<Step>& program) {
    witness_ = tt::allocate(device_, program.size() * cell_bytes, TN_MEMORY_HOST);
    for (size_t i = 0; i < program.size(); ++i) {
      const Step& step = program[i];
      if (step.what == Do::renew) renew(step.to);
      for (auto places = hazards_.before(step); !places.empty(); places = hazards_.before(step))
        order(step.stream, places.front());
      issue(step);
      testify(step, i);
      hazards_.issued(step);
      if (draw(random_, 3) == 0) mark(step.stream);
      if (open_.size() > 3) keep_promise();
    }
    while (!open_.empty()) keep_promise();
    for (const tt::Stream& stream : streams_) tt::drain(stream);
    const auto* const kept = at(witness_);
    return {kept, kept + program.size()};
  }

  uint64_t waits() const { return waits_; }
  uint64_t promised() const { return promised_; }

 private:
  tn_span span(uint32_t cell) const { return tt::span(cells_[cell], 0, cell_bytes); }
  static Cell* at(tn_memory* pinned) { return reinterpret_cast<Cell*>(tt::address(pinned)); }

  const Mark& mark(uint32_t stream) {
    return marks_[stream].emplace_back(hazards_.mark(stream, tt::record(streams_[stream])));
  }
  // A value after that place: the first that was recorded, or a new one.
  const Mark& mark_after(const Place& place) {
    for (const Mark& mark : marks_[place.stream])
      if (mark.position >= place.position && draw(random_, 2) == 0) return mark;
    return mark(place.stream);
  }
  void order(uint32_t stream, const Place& place) {
    const Mark& mark = mark_after(place);
    hazards_.waited(stream, mark);
    if (draw(random_, 4) == 0) return promise(stream, place.stream, mark.value);
    tt::wait(streams_[stream], streams_[place.stream], mark.value);
    ++waits_;
  }
  void promise(uint32_t stream, uint32_t other, uint64_t value) {
    uint64_t promised = 0;
    tt::must([&](tn_error* e) { return tt::plugin().stream->promise(promises_, &promised, e); });
    tt::wait(streams_[stream], promises_, promised);
    open_.push_back({other, value, promised});
    ++promised_;
  }
  // The oldest first: what it stands for can wait for none but older ones.
  void keep_promise() {
    const Open oldest = open_.front();
    open_.pop_front();
    const tt::Outcome said = tt::try_sync(streams_[oldest.stream], oldest.value);
    if (!said.ok()) FAIL(said.message());
    tt::must([&](tn_error* e) { return tt::plugin().stream->signal(promises_, oldest.promised, TN_OK, e); });
  }
  // The cell's memory is freed when all that uses it is over, and is another one then.
  void renew(uint32_t cell) {
    while (!open_.empty()) keep_promise();
    for (const Place& place : hazards_.users(cell)) {
      const tt::Outcome said = tt::try_sync(streams_[place.stream], mark_after(place).value);
      if (!said.ok()) FAIL(said.message());
    }
    hazards_.over(cell);
    cells_[cell].reset();
    cells_[cell] = tt::allocate(device_, cell_bytes);
  }

  void issue(const Step& step) {
    const tt::Stream& stream = streams_[step.stream];
    switch (step.what) {
      case Do::fill:
      case Do::renew:
        return tt::fill(stream, span(step.to), static_cast<uint32_t>(step.value), 4);
      case Do::upload: {
        const Cell source = uploaded(step.value);  // gone before the copy runs
        return tt::copy(stream, span(step.to), tt::host_span(&source, cell_bytes));
      }
      case Do::copy:
        return tt::copy(stream, span(step.to), span(step.a));
      case Do::add: {
        const tn_span bindings[] = {span(step.a), span(step.b), span(step.to)};
        return tt::launch(add_, stream, bindings, tn_span{});
      }
      case Do::host:
        return call(stream, turn, at(cells_[step.a]), at(cells_[step.to]));
    }
  }
  // A copy between pinned memories would be made at once by the driver, and everything before it.
  void testify(const Step& step, size_t index) {
    const tt::Stream& stream = streams_[step.stream];
    if (is_pinned(step.to)) return call(stream, keep, at(cells_[step.to]), at(witness_) + index);
    tt::copy(stream, tt::span(witness_, index * cell_bytes, cell_bytes), span(step.to));
  }
  void call(tn_stream* stream, void (*function)(void*), const Cell* from, Cell* to) {
    calls_.push_back({from, to});
    tt::must(
        [&](tn_error* e) { return tt::plugin().stream->host_call(stream, function, &calls_.back(), e); });
  }

  Random random_;
  std::deque<Call> calls_;
  tt::Device device_;
  tt::Kernel add_;
  std::array<tt::Memory, cell_count> cells_;
  tt::Memory witness_;
  std::array<tt::Stream, stream_count> streams_;
  tt::Stream promises_;
  struct Open {
    uint32_t stream;
    uint64_t value, promised;
  };
  std::deque<Open> open_;  // promises that are not kept yet
  Hazards hazards_;
  std::array<std::deque<Mark>, stream_count> marks_;
  uint64_t waits_ = 0, promised_ = 0;
};

struct Outcome {
  std::vector<Cell> written;
  uint64_t waits = 0, promised = 0;
};

Outcome run(const std::vector<Step>& program, uint64_t seed, const std::string& settings = "") {
  configure("idle_ms=3600000,seed=" + std::to_string(seed) + settings);
  const tt::PluginWorld world("cuda", {{"cache", cache()}});
  Runner runner(seed);
  Outcome out{.written = runner.run(program)};
  out.waits = runner.waits();
  out.promised = runner.promised();
  return out;
}

// How many of `count` programs compute something else when the driver drops one wait, under any of a few seeds.
int caught(const std::string& setting, uint64_t most, int count) {
  constexpr uint64_t tries = 12;  // adversarial seeds for each
  const uint64_t first = tt::seed() % 1'000'000;
  int out = 0;
  for (uint64_t plant = first; plant < first + static_cast<uint64_t>(count); ++plant) {
    CAPTURE(plant);
    const auto program = make_program(plant, steps);
    const auto meaning = expected(program);
    const std::string dropped = "," + setting + "=" + std::to_string(1 + plant % most);
    bool seen = false;
    for (uint64_t seed = plant; seed < plant + tries && !seen; ++seed)
      seen = run(program, seed, dropped).written != meaning;
    out += seen ? 1 : 0;
  }
  MESSAGE("planted missing waits found (", setting, "): ", out, " of ", count);
  return out;
}

}  // namespace

TEST_CASE("order: programs over several streams compute what they mean, whatever runs first") {
  const uint64_t first = tt::seed() % 1'000'000;
  const int count = tt::full_or("adversarial seeds", 50, 1000);
  uint64_t waits = 0, promised = 0;
  int wrong = 0;
  for (uint64_t seed = first; seed < first + static_cast<uint64_t>(count); ++seed) {
    CAPTURE(seed);
    const auto program = make_program(seed, steps);
    const Outcome outcome = run(program, seed);
    const bool right = outcome.written == expected(program);
    CHECK(right);
    wrong += right ? 0 : 1;
    waits += outcome.waits;
    promised += outcome.promised;
  }
  MESSAGE("order violations: ", wrong, " in ", count, " programs with ", waits, " waits for values and ",
          promised, " for promises");
}

TEST_CASE("order: a wait that the driver drops is found out") {
  const int count = tt::full_or("planted missing waits", 10, 100);
  CHECK(caught("drop_wait", 20, count) >= count * 8 / 10);
}

TEST_CASE("order: a wait for a promise that the driver drops is found out") {
  const int count = tt::full_or("planted missing waits for promises", 10, 100);
  CHECK(caught("drop_value", 8, count) >= count * 8 / 10);
}

TEST_CASE("order: one seed gives one outcome even when the program is wrong") {
  const auto program = make_program(7, steps);
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    CAPTURE(seed);
    CHECK(run(program, seed, ",drop_wait=3").written == run(program, seed, ",drop_wait=3").written);
  }
}
