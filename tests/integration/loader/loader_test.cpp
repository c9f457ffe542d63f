// SPDX-License-Identifier: Apache-2.0
// Batches come to the device whole, in order, ahead of time, and their memory goes round.
#include "integration/loader/world.hpp"

#include "base/clock.hpp"

#include <algorithm>
#include <atomic>
#include <latch>

using namespace tenon;
using namespace tenon::test;

namespace {

using Numbers = std::vector<int32_t>;

// The samples of each of `steps` steps, one rank after the other.
std::vector<Numbers> steps_of(World& w, uint64_t samples, LoaderOptions options, uint64_t steps) {
  std::vector<Numbers> out(steps);
  for (options.rank = 0; options.rank < options.ranks; ++options.rank) {
    Loader loader = must(Loader::open(w.device, numbered(samples), options));
    for (Numbers& step : out) {
      const Batch batch = must(loader.next(w.stream));
      const Numbers part = samples_of(w.stream, batch);
      step.insert(step.end(), part.begin(), part.end());
    }
  }
  return out;
}

}  // namespace

TEST_CASE(
    "loader: one rank of 16 and four of 4 get the same samples in each step, with any workers and depth") {
  World w;
  for (const Uneven uneven : {Uneven::pad, Uneven::fixed, Uneven::join}) {
    CAPTURE(name(uneven));
    const auto one = steps_of(w, 90, {.batch = 16, .uneven = uneven, .seed = 5}, 14);
    CHECK(one == steps_of(w, 90,
                          {.batch = 4, .ranks = 4, .uneven = uneven, .seed = 5, .depth = 1, .workers = 1},
                          14));
    CHECK(one == steps_of(w, 90, {.batch = 16, .uneven = uneven, .seed = 5, .depth = 5, .workers = 4}, 14));
    CHECK(one != steps_of(w, 90, {.batch = 16, .uneven = uneven, .seed = 6}, 14));
  }
}

TEST_CASE("loader: a batch says its epoch, its step, and how many of its samples are real") {
  World w;
  Loader loader = must(Loader::open(w.device, numbered(10), {.batch = 4}));
  CHECK(loader.steps() == 3);
  for (uint64_t i = 0; i < 9; ++i) {
    const Batch batch = must(loader.next(w.stream));
    CHECK(batch.epoch() == i / 3);
    CHECK(batch.step() == i % 3);
    CHECK(batch.samples() == (i % 3 == 2 ? 2 : 4));
    CHECK(batch.tensors()[1].spec.dims == std::vector<int64_t>{4, 3});
  }
}

TEST_CASE("loader: with join the last batch is as short as it must be, down to nothing") {
  World w;
  for (const auto& [rank, samples] :
       {std::pair{0u, uint64_t{4}}, std::pair{1u, uint64_t{2}}, std::pair{2u, uint64_t{0}}}) {
    Loader loader = must(
        Loader::open(w.device, numbered(18), {.batch = 4, .rank = rank, .ranks = 3, .uneven = Uneven::join}));
    CHECK(must(loader.next(w.stream)).samples() == 4);
    {
      const Batch last = must(loader.next(w.stream));
      CHECK(last.samples() == samples);
      CHECK(last.tensors()[1].spec.dims == std::vector<int64_t>{static_cast<int64_t>(samples), 3});
      CHECK(last.tensors()[1].span.bytes == samples * 12);
      CHECK(last.bindings()[1].span.bytes == samples * 12);
      CHECK(samples_of(w.stream, last).size() == samples);
    }
    const Batch next = must(loader.next(w.stream));  // and whole again
    CHECK(samples_of(w.stream, next).size() == 4);
  }
}

TEST_CASE("loader: seek gives the same stream as running there") {
  World w;
  const auto run = steps_of(w, 50, {.batch = 8, .seed = 3}, 21);
  Loader loader = must(Loader::open(w.device, numbered(50), {.batch = 8, .seed = 3}));
  for (const auto& [epoch, step] :
       {std::pair{1u, 4u}, std::pair{0u, 0u}, std::pair{2u, 6u}, std::pair{0u, 5u}}) {
    must(loader.seek(epoch, step));
    for (uint64_t i = epoch * 7 + step; i < std::min<uint64_t>(epoch * 7 + step + 4, 21); ++i) {
      const Batch batch = must(loader.next(w.stream));
      CHECK(batch.epoch() == i / 7);
      CHECK(batch.step() == i % 7);
      CHECK(samples_of(w.stream, batch) == run[i]);
    }
  }
  const Status beyond = loader.seek(0, 7);
  CHECK(beyond.code() == TN_INVALID);
  CHECK_HAS(std::string(beyond.message()), "there is no step 7 in an epoch of 7 steps");
}

TEST_CASE(
    "loader: a batch that is held keeps its samples, also through a seek and beyond the loader's life") {
  World w;
  std::optional<Loader> loader =
      must(Loader::open(w.device, numbered(64), {.batch = 8, .seed = 1, .depth = 3}));
  const Batch first = must(loader->next(w.stream));
  const Numbers before = samples_of(w.stream, first);
  must(loader->seek(4, 2));
  const Batch second = must(loader->next(w.stream));
  const Numbers other = samples_of(w.stream, second);
  for (int i = 0; i < 10; ++i) CHECK(must(loader->next(w.stream)).samples() == 8);
  loader.reset();
  CHECK(samples_of(w.stream, first) == before);
  CHECK(samples_of(w.stream, second) == other);
}

TEST_CASE("loader: memory goes round in the order of the consumer's stream, without the host waiting") {
  World w;
  constexpr uint64_t steps = 40;
  Loader loader = must(Loader::open(w.device, numbered(96), {.batch = 8, .seed = 2}));
  const Buffer kept = must(w.device.allocate(w.stream, steps * 8 * sizeof(int32_t)));
  for (uint64_t i = 0; i < steps; ++i) {
    const Batch batch = must(loader.next(w.stream));
    must(w.stream.copy(must(kept.slice(i * 32, 32)), batch.tensors()[0].span));
  }
  const auto all = download<int32_t>(w.stream, kept);
  const auto expected = steps_of(w, 96, {.batch = 8, .seed = 2}, steps);
  for (uint64_t i = 0; i < steps; ++i)
    CHECK(Numbers(all.begin() + static_cast<ptrdiff_t>(i * 8),
                  all.begin() + static_cast<ptrdiff_t>(i * 8 + 8)) == expected[i]);
}

TEST_CASE("loader: all that is read ahead can be taken while the consumer's stream stands still") {
  World w;
  const auto& emulated = w.device.emulated();
  if (std::ranges::any_of(emulated,
                          [](const std::string& one) { return one.find("host call") != std::string::npos; }))
    TENON_SKIP("host_call", w.device.name() + " has none, so its streams cannot be held");
  std::latch gate(1);
  Loader loader = must(Loader::open(w.device, numbered(96), {.batch = 8, .seed = 2, .depth = 3}));
  const Buffer kept = must(w.device.allocate(w.stream, 8 * 32));
  must(w.stream.host_call([&] { gate.wait(); }));
  std::vector<Status> copies;
  const auto take = [&](uint64_t i) {
    const Batch batch = must(loader.next(w.stream));
    must(w.stream.copy(must(kept.slice(i * 32, 32)), batch.tensors()[0].span));
  };
  for (uint64_t i = 0; i < 4; ++i) take(i);
  gate.count_down();
  for (uint64_t i = 4; i < 8; ++i) take(i);
  const auto all = download<int32_t>(w.stream, kept);
  Numbers expected;
  for (const Numbers& step : steps_of(w, 96, {.batch = 8, .seed = 2}, 8))
    expected.insert(expected.end(), step.begin(), step.end());
  CHECK(all == expected);
}

TEST_CASE("loader: a use on another stream holds the memory, too") {
  World w;
  auto other = w.device.stream();
  if (!other.ok()) TENON_SKIP("streams", std::string(other.message()));
  Loader loader = must(Loader::open(w.device, numbered(96), {.batch = 8, .seed = 2, .depth = 1}));
  const Buffer kept = must(w.device.allocate(*other, 20 * 32));
  for (uint64_t i = 0; i < 20; ++i) {
    Batch batch = must(loader.next(w.stream));
    must(other->wait(must(w.stream.record())));
    must(other->copy(must(kept.slice(i * 32, 32)), batch.tensors()[0].span));
    must(batch.used_on(*other));
    must(batch.done());
    CHECK_FALSE(batch);
    CHECK(batch.used_on(*other).code() == TN_INVALID);
  }
  const auto all = download<int32_t>(*other, kept);
  Numbers expected;
  for (const Numbers& step : steps_of(w, 96, {.batch = 8, .seed = 2}, 20))
    expected.insert(expected.end(), step.begin(), step.end());
  CHECK(all == expected);
}

TEST_CASE("loader: a steady state takes nothing more from the pools, and the end gives all of it back") {
  World w;
  const uint64_t used = w.device.pool_stats().used_bytes;
  {
    Loader loader = must(Loader::open(w.device, numbered(640), {.batch = 64, .depth = 3}));
    for (int i = 0; i < 5; ++i) static_cast<void>(must(loader.next(w.stream)));
    const uint64_t before = w.device.pool_stats().allocations,
                   host = w.device.pool_stats(MemoryKind::host).allocations;
    for (int i = 0; i < 50; ++i) static_cast<void>(must(loader.next(w.stream)));
    must(loader.seek(0, 0));
    CHECK(w.device.pool_stats().allocations == before);
    CHECK(w.device.pool_stats(MemoryKind::host).allocations == host);
  }
  CHECK(w.device.pool_stats().used_bytes == used);
}

TEST_CASE("loader: bindings are a plan's") {
  World w;
  Loader loader = must(Loader::open(w.device, numbered(8), {.batch = 4, .shuffle = false}));
  Graph g;
  const auto half = g.input("half", {f32, {4, 3}});
  g.input("number", {i32, {4}});
  g.output("whole", g.scale(g.add(half, half), 1, 1));
  const Plan plan = must(tenon::plan(g, w.device));
  const Buffer out = must(w.device.allocate(w.stream, 48));
  const Batch batch = must(loader.next(w.stream));
  std::vector<Binding> bindings(batch.bindings().begin(), batch.bindings().end());
  bindings.push_back({"whole", out});
  must(plan.run(w.stream, bindings));
  CHECK(download<float>(w.stream, out) == std::vector<float>{1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4});
}

TEST_CASE("loader: explains order, rest, memory and what it found") {
  World w;
  Loader loader = must(Loader::open(w.device, numbered(100), {.batch = 8, .ranks = 3, .seed = 4}));
  static_cast<void>(must(loader.next(w.stream)));
  const std::string text = loader.explain();
  CHECK_HAS(text, "epoch    100 samples in 5 steps of 3 x 8; pad: the last step repeats 20\n");
  CHECK_HAS(text, "order    shuffled by Fisher and Yates over Philox4x32-10, seed 4, anew in every epoch\n");
  CHECK_HAS(text, "ahead    2 of 3 batches, 2 workers; a batch is 512 B of ");
  CHECK_HAS(text, "batches  1 given out, 0 of them late");
  CHECK(text.find("image") == std::string::npos);
  CHECK(loader.figures().launches == 0);
  CHECK(loader.figures().bytes == 512);
  REQUIRE(loader.tensors().size() == 2);
  CHECK(loader.tensors()[1].spec.dims == std::vector<int64_t>{8, 3});
}

TEST_CASE(
    "loader: a timeline has its copies, and for each batch the waits of the host and of the consumer's "
    "stream") {
  World w;
  auto timeline = Timeline::create(w.device);
  SKIP_IF_UNSUPPORTED(timeline, "timestamps");
  must(timeline.ok() ? Status() : Status(timeline.error()));
  Stream stream = must(w.device.stream({.name = "work"}));
  Dataset numbers = numbered(32);
  std::atomic<uint64_t> last_read{0};  // of the first batch
  numbers.read = [&, read = numbers.read](uint64_t sample, Dataset::Bytes to) {
    uint64_t never = 0;  // later it is read for the next epoch
    if (sample == 7) last_read.compare_exchange_strong(never, base::now_ns());
    return read(sample, to);
  };
  Loader loader =
      must(Loader::open(w.device, numbers, {.batch = 8, .shuffle = false, .timeline = *timeline}));
  for (int i = 0; i < 4; ++i) static_cast<void>(must(loader.next(stream)));
  must(stream.sync());
  const Trace trace = timeline->take();
  const auto count = [&](TraceKind kind, std::string_view stream) {
    return std::ranges::count_if(trace.events, [&](const TraceEvent& event) {
      return event.kind == kind && event.name == "batch" && trace.lanes[event.lane].stream == stream;
    });
  };
  CHECK(count(TraceKind::copy, "loader") >= 4);
  CHECK(count(TraceKind::wait, "work") == 4);
  CHECK(count(TraceKind::host, "host") == 4);
  const auto waited = std::ranges::find(trace.events, TraceKind::host, &TraceEvent::kind);
  REQUIRE(waited != trace.events.end());
  CHECK(waited->end_ns >= static_cast<int64_t>(last_read.load()));
}
