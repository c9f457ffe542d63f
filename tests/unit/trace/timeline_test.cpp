// SPDX-License-Identifier: Apache-2.0
// timeline_test.cpp: what is kept of work on streams that the test moves by hand; the fake's clock shows a value's number.
#include <tenon/timeline.hpp>

#include "fake_plugin.hpp"

#include <doctest/doctest.h>

#include <thread>

using namespace tenon;
using namespace tenon::test;

namespace {

struct World {
  FakePlugin plugin{};
  Device device = plugin.open();
  Stream a = *device.stream({.name = "a"}), b = *device.stream({.name = "b"});
  Buffer memory = *device.allocate(a, 64);

  Status work(Stream& on) { return on.fill(memory); }
  Status measured(Timeline& timeline, Stream& on, const Timeline::Work& what) {
    return timeline.measure(on, what, [&] { return work(on); });
  }
};

}  // namespace

TEST_CASE("timeline: one that is off lets work through and calls nothing else") {
  World world;
  Timeline off;
  CHECK_FALSE(off);
  const uint64_t before = world.plugin.calls().record;
  CHECK(world.measured(off, world.a, {.name = "fill"}).ok());
  CHECK(world.plugin.calls().record == before);
  CHECK(world.plugin.calls().fill == 1);
  CHECK(off.begin(world.a)->stream_state() == nullptr);
  CHECK(off.end(world.a, Point(), {.name = "fill"}).ok());
  CHECK(off.take().events.empty());
  CHECK(off.write("/no/such/folder/run.json").ok());
}

TEST_CASE("timeline: each piece of work is an event with all that was said of it") {
  World world;
  Timeline timeline = *Timeline::create(world.device, {.rank = 3});
  CHECK(world.measured(timeline, world.a, {.name = "fc1"}).ok());
  CHECK(
      world
          .measured(
              timeline, world.b,
              {.kind = TraceKind::collective, .name = "bucket", .bytes = 64, .bucket = 7, .predicted_ns = 5})
          .ok());
  CHECK(world.measured(timeline, world.a, {.kind = TraceKind::copy, .name = "fc1"}).ok());
  const Trace trace = timeline.take();
  REQUIRE(trace.lanes.size() == 2);
  CHECK(trace.lanes[0] == TraceLane{.rank = 3, .device = "fake:0", .stream = "a"});
  CHECK(trace.lanes[1].stream == "b");
  REQUIRE(trace.events.size() == 3);
  CHECK(trace.dropped == 0);
  CHECK(trace.notes.empty());
  for (const TraceEvent& event : trace.events) CHECK(event.end_ns >= event.begin_ns);
  int collectives = 0;
  for (const TraceEvent& event : trace.events) {
    if (event.kind != TraceKind::collective) continue;
    ++collectives;
    CHECK(event.lane == 1);
    CHECK(event.name == "bucket");
    CHECK(event.bytes == 64);
    CHECK(event.bucket == 7u);
    CHECK(event.predicted_ns == 5);
  }
  CHECK(collectives == 1);
  CHECK(timeline.take().events.empty());
}

TEST_CASE("timeline: an event lies between the values around its work") {
  World world;
  Timeline timeline = *Timeline::create(world.device);
  FakePlugin::hold(world.a);
  const Point begin = *timeline.begin(world.a);
  for (int i = 0; i < 5; ++i) CHECK(world.work(world.a).ok());
  CHECK(timeline.end(world.a, begin, {.name = "five"}).ok());
  FakePlugin::release(world.a);
  const Trace trace = timeline.take();
  REQUIRE(trace.events.size() == 1);
  // Five values of 1000 ns; the fake's clock is compared with the host's by two single moments, so its pace is not known.
  CHECK(trace.events[0].end_ns - trace.events[0].begin_ns == 5000);
}

TEST_CASE("timeline: work that fails is not kept, and its failure is told") {
  World world;
  Timeline timeline = *Timeline::create(world.device);
  const Status failed =
      timeline.measure(world.a, {.name = "no"}, [] { return Status(TN_INVALID, "refused"); });
  CHECK(failed.message() == "refused");
  CHECK(timeline.take().events.empty());
}

TEST_CASE("timeline: the newest events are kept, the others counted") {
  World world;
  Timeline timeline = *Timeline::create(world.device, {.events = 10});
  for (int i = 0; i < 25; ++i) CHECK(world.measured(timeline, world.a, {.name = std::to_string(i)}).ok());
  const Trace trace = timeline.take();
  CHECK(trace.dropped == 15);
  REQUIRE(trace.events.size() == 10);
  for (size_t i = 0; i < 10; ++i) CHECK(trace.events[i].name == std::to_string(15 + i));
}

TEST_CASE("timeline: a stream that stands still drops what does not fit, and blocks nobody") {
  World world;
  Timeline timeline = *Timeline::create(world.device);
  FakePlugin::hold(world.a);
  for (int i = 0; i < 1100; ++i) CHECK(world.measured(timeline, world.a, {.name = "fill"}).ok());
  FakePlugin::release(world.a);
  const Trace trace = timeline.take();
  CHECK(trace.events.size() == 1024);
  CHECK(trace.dropped == 76);
}

TEST_CASE("timeline: of a stream that fails, what was known is kept, with a note") {
  World world;
  Timeline timeline = *Timeline::create(world.device);
  CHECK(world.measured(timeline, world.a, {.name = "well"}).ok());
  CHECK(world.measured(timeline, world.b, {.name = "other"}).ok());
  CHECK(world.a.sync().ok());
  FakePlugin::hold(world.a);
  FakePlugin::fail_next(world.a, TN_INTERNAL, "caught fire");
  CHECK(world.measured(timeline, world.a, {.name = "lost"}).ok());
  FakePlugin::release(world.a);
  const Trace trace = timeline.take();
  REQUIRE(trace.notes.size() == 1);
  CHECK(trace.notes[0].find("caught fire") != std::string::npos);
  CHECK(trace.dropped == 1);
  CHECK(trace.events.size() == 2);
}

TEST_CASE("timeline: a device without timestamps, and no events at all, are refused with the remedy") {
  FakePlugin without({.timestamps = false});
  Device device = without.open();
  const auto refused = Timeline::create(device);
  CHECK(refused.code() == TN_UNSUPPORTED);
  CHECK(refused.message().find("device 'fake:0' takes no timestamps") != std::string::npos);
  World world;
  CHECK(Timeline::create(world.device, {.events = 0}).code() == TN_INVALID);
}

TEST_CASE("timeline: streams are let go when their events were taken") {
  World world;
  Timeline timeline = *Timeline::create(world.device);
  const uint64_t before = world.plugin.calls().destroy;
  {
    Stream brief = *world.device.stream({.name = "brief"});
    CHECK(world.measured(timeline, brief, {.name = "fill"}).ok());
  }
  CHECK(world.plugin.calls().destroy == before);
  CHECK(timeline.take().events.size() == 1);
  CHECK(world.plugin.calls().destroy == before + 1);
}

TEST_CASE("timeline: threads measure on streams of their own at the same time") {
  World world;
  Timeline timeline = *Timeline::create(world.device);
  std::vector<std::thread> threads;
  std::vector<Stream> streams;
  for (int i = 0; i < 4; ++i)
    streams.push_back(*world.device.stream({.name = "thread " + std::to_string(i)}));
  for (Stream& stream : streams)
    threads.emplace_back([&world, &timeline, &stream] {
      for (int i = 0; i < 200; ++i)
        static_cast<void>(timeline.measure(stream, {.name = "fill"}, [&] { return world.work(stream); }));
    });
  for (std::thread& thread : threads) thread.join();
  const Trace trace = timeline.take();
  CHECK(trace.lanes.size() == 4);
  CHECK(trace.events.size() == 800);
}
