// SPDX-License-Identifier: Apache-2.0
// timeline_test.cpp: a timeline on every device: times of the device, on the host's clock.
#include "integration/device.hpp"

#include "base/clock.hpp"

using namespace tenon;
using namespace tenon::test;

namespace {

// A timeline of `device`, or the reason why there is none.
Result<Timeline> timeline_of(Device& device) { return Timeline::create(device, {.rank = 2}); }

}  // namespace

TEST_CASE("timeline device: events of a stream follow each other, inside the time that the host saw pass") {
  Runtime runtime = open();
  Device device = target(runtime);
  auto created = timeline_of(device);
  SKIP_IF_UNSUPPORTED(created, "timestamps");
  Timeline timeline = must(std::move(created));
  Stream stream = must(device.stream({.name = "work"}));
  const Buffer buffer = must(device.allocate(stream, 1 << 20));
  must(stream.sync());
  const auto before = static_cast<int64_t>(base::now_ns());
  for (uint64_t i = 0; i < 100; ++i)
    must(timeline.measure(stream, {.kind = TraceKind::copy, .name = "fill", .bytes = buffer.bytes()},
                          [&] { return stream.fill(buffer, i); }));
  const Trace trace = timeline.take();
  const auto after = static_cast<int64_t>(base::now_ns());
  CHECK(trace.dropped == 0);
  REQUIRE(trace.events.size() == 100);
  REQUIRE(trace.lanes.size() == 1);
  CHECK(trace.lanes[0].rank == 2);
  CHECK(trace.lanes[0].device == device.name());
  CHECK(trace.lanes[0].stream == "work");
  int64_t last = before;
  for (const TraceEvent& event : trace.events) {
    CHECK(event.begin_ns >= last);
    CHECK(event.end_ns > event.begin_ns);
    last = event.end_ns;
  }
  CHECK(last <= after);
  const TraceTotals totals = summarize(trace).ranks.at(0);
  CHECK(totals.copy_ns > 0);
  CHECK(totals.busy_ns <= totals.wall_ns);
}

TEST_CASE("timeline device: more work than a device keeps times of loses none") {
  Runtime runtime = open();
  Device device = target(runtime);
  auto created = timeline_of(device);
  SKIP_IF_UNSUPPORTED(created, "timestamps");
  Timeline timeline = must(std::move(created));
  Stream stream = must(device.stream());
  const Buffer buffer = must(device.allocate(stream, 64));
  constexpr uint64_t pieces = 3000;  // with two timed values each
  for (uint64_t i = 0; i < pieces; ++i) {
    must(timeline.measure(stream, {.kind = TraceKind::copy, .name = "fill"},
                          [&] { return stream.fill(buffer, i); }));
    if (i % 500 == 0) must(stream.sync());  // as a step does
  }
  const Trace trace = timeline.take();
  CHECK(trace.events.size() + trace.dropped == pieces);
  CHECK(trace.dropped == 0);
}

TEST_CASE(
    "timeline device: what the host's thread does is an event on the same clock, in a lane without a "
    "device") {
  Runtime runtime = open();
  Device device = target(runtime);
  auto created = timeline_of(device);
  SKIP_IF_UNSUPPORTED(created, "timestamps");
  Timeline timeline = must(std::move(created));
  Stream stream = must(device.stream());
  const auto before = static_cast<int64_t>(base::now_ns());
  must(timeline.measure_host({.name = "idle", .bucket = 3}, [&] { return stream.sync(); }));
  const auto after = static_cast<int64_t>(base::now_ns());
  CHECK(timeline.measure_host({.name = "bad"}, [] { return Status(TN_INTERNAL, "no"); }).code() ==
        TN_INTERNAL);
  const Trace trace = timeline.take();
  REQUIRE(trace.events.size() == 1);
  CHECK(trace.events[0].kind == TraceKind::host);
  CHECK(trace.events[0].bucket == 3u);
  CHECK(trace.events[0].begin_ns >= before);
  CHECK(trace.events[0].end_ns <= after);
  CHECK(trace.lanes == std::vector<TraceLane>{{.rank = 2, .device = "", .stream = "host"}});
  CHECK(summarize(trace).all.wall_ns == 0);
  Timeline off;
  bool ran = false;
  must(off.measure_host({.name = "off"}, [&] {
    ran = true;
    return Status();
  }));
  CHECK(ran);
}
