// SPDX-License-Identifier: Apache-2.0
// ranks_test.cpp: two ranks that compute and exchange at the same time, their files, and what these add up to.
#include "integration/comm/ranks.hpp"
#include "integration/device.hpp"

#include "base/clock.hpp"
#include "support/temp_folder.hpp"

#include <atomic>

using namespace tenon;
using namespace tenon::test;
using comm_test::as_threads, comm_test::Rank;

namespace {

// Steps of one rank: kernels on its stream, and for each a collective on another that waits for it.
Status steps(Rank& rank, Timeline timeline, const std::string& file) {
  Stream wire = TN_TRY(rank.device.stream({.name = "gradients"}));
  const Buffer data = TN_TRY(rank.buffer(1 << 18));
  const auto bytes = data.bytes();
  for (int step = 0; step < 3; ++step)
    for (uint32_t bucket = 0; bucket < 4; ++bucket) {
      TN_TRY(timeline.measure(rank.stream, {.name = "backward"},
                              [&] { return rank.stream.fill(data, bucket); }));
      const Point ready = TN_TRY(rank.stream.record());
      TN_TRY(timeline.measure(wire, {.kind = TraceKind::wait, .name = "ready"},
                              [&] { return wire.wait(ready); }));
      TN_TRY(timeline.measure(wire,
                              {.kind = TraceKind::collective,
                               .name = "all_reduce",
                               .bytes = bytes,
                               .bucket = bucket,
                               .predicted_ns = 1e5},
                              [&] { return rank.comm.all_reduce(wire, data, data, f32); }));
      TN_TRY(rank.stream.wait(TN_TRY(wire.record())));
    }
  return timeline.write(file);
}

}  // namespace

TEST_CASE("timeline ranks: the files of two ranks are one run, on one clock") {
  const TempFolder folder;
  Runtime runtime = must(comm_test::runtime());
  const Store store = Store::in_process();
  const std::vector<std::string> files{folder / "rank0.json", folder / "rank1.json"};
  const auto before = static_cast<int64_t>(base::now_ns());
  const auto outcomes = as_threads(2, [&](uint32_t number) -> Status {
    Rank rank = TN_TRY(comm_test::join(TN_TRY(runtime.device("cpu")), store, number, 2));
    return steps(rank, TN_TRY(Timeline::create(rank.device, {.rank = number})), files[number]);
  });
  for (const Status& outcome : outcomes) REQUIRE_MESSAGE(outcome.ok(), outcome.message());
  const auto after = static_cast<int64_t>(base::now_ns());

  const Trace run = must(Trace::read(files));
  CHECK(run.notes.empty());
  CHECK(run.lanes.size() == 4);
  CHECK(run.events.size() == 2 * 3 * 4 * 3);
  for (const TraceEvent& event : run.events) {
    CHECK(event.begin_ns >= before);
    CHECK(event.end_ns <= after);
  }
  const TraceSummary sums = summarize(run);
  REQUIRE(sums.ranks.size() == 2);
  for (const TraceTotals& rank : sums.ranks) {
    CHECK(rank.compute_ns > 0);
    CHECK(rank.communication_ns > 0);
    CHECK(rank.exposed_ns > 0);  // each collective waits for its kernel, and the next kernel for it
    CHECK(rank.exposed_ns <= rank.communication_ns);
    CHECK(rank.overlap() < 0.5);
  }
  REQUIRE(sums.buckets.size() == 4);
  for (const TraceBucket& bucket : sums.buckets) {
    CHECK(bucket.count == 6);
    CHECK(bucket.bytes == 1 << 18);
    CHECK(bucket.predicted_ns == 1e5);
  }
}

TEST_CASE("timeline ranks: a wait lasts until what it waits for is over") {
  Runtime runtime = must(comm_test::runtime());
  Device device = must(runtime.device("cpu"));
  Timeline timeline = must(Timeline::create(device));
  Stream slow = must(device.stream({.name = "slow"})), waiting = must(device.stream({.name = "waiting"}));
  std::atomic<bool> released{false};
  must(slow.host_call([&] { released.wait(false); }));
  const Point over = must(slow.record()), begin = must(timeline.begin(waiting));
  must(waiting.wait(over));
  must(timeline.end(waiting, begin, {.kind = TraceKind::wait, .name = "slow"}));
  must(begin.sync());
  const auto middle = static_cast<int64_t>(base::now_ns());
  released = true;
  released.notify_all();
  const Trace trace = timeline.take();
  REQUIRE(trace.events.size() == 1);
  CHECK(trace.events[0].begin_ns <= middle);
  CHECK(trace.events[0].end_ns >= middle);
}
