// SPDX-License-Identifier: Apache-2.0
// Streams under threads: random waits, also across plugins, never let work run too early.
#include "fake_plugin.hpp"
#include "support/full.hpp"
#include "support/seed.hpp"

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

using namespace tenon;
using test::FakePlugin;

namespace {

constexpr size_t thread_count = 8, streams_each = 8;

// One stream, the newest point others may wait for, and how far its work really is at that point.
struct Lane {
  Stream stream;
  std::mutex mutex;
  Point point;
  uint64_t promised = 0;
  std::atomic<uint64_t> done{0};
  uint64_t enqueued = 0;
  bool held = false;
};

struct Stress {
  FakePlugin near_plugin;
  FakePlugin far_plugin{{.name = "far"}};
  Device near_device = near_plugin.open(), far_device = far_plugin.open();
  std::array<Lane, thread_count * streams_each> lanes;
  std::atomic<uint64_t> early{0}, failed{0}, waits{0};

  Stress() {
    for (size_t i = 0; i < lanes.size(); ++i)
      lanes[i].stream = *(i % 4 == 3 ? far_device : near_device).stream();
  }
  void work(Lane& lane) {
    const uint64_t number = ++lane.enqueued;
    const Status status = lane.stream.host_call([this, &lane, number] {
      if (lane.done.exchange(number) + 1 != number) ++early;
    });
    if (!status.ok()) ++failed;
  }
  void publish(Lane& lane) {
    auto point = lane.stream.record();
    if (!point.ok()) return void(++failed);
    const std::lock_guard lock(lane.mutex);
    lane.point = std::move(*point);
    lane.promised = lane.enqueued;
  }
  void wait(Lane& lane, Lane& other) {
    Point point;
    uint64_t promised = 0;
    {
      const std::lock_guard lock(other.mutex);
      point = other.point;
      promised = other.promised;
    }
    if (!lane.stream.wait(point).ok()) ++failed;
    ++waits;
    const uint64_t number = ++lane.enqueued;
    const Status status = lane.stream.host_call([this, &lane, &other, promised, number] {
      if (other.done < promised || lane.done.exchange(number) + 1 != number) ++early;
    });
    if (!status.ok()) ++failed;
  }
  void run(size_t thread, uint64_t seed, uint64_t operations);
};

void Stress::run(size_t thread, uint64_t seed, uint64_t operations) {
  std::mt19937_64 random(seed + thread);
  for (uint64_t i = 0; i < operations; ++i) {
    Lane& lane = lanes[thread * streams_each + random() % streams_each];
    switch (random() % 8) {
      case 0:
      case 1:
        work(lane);
        break;
      case 2:
      case 3:
        publish(lane);
        break;
      case 4:
      case 5:
        wait(lane, lanes[random() % lanes.size()]);
        break;
      case 6:
        lane.held ? FakePlugin::release(lane.stream) : FakePlugin::hold(lane.stream);
        lane.held = !lane.held;
        break;
      default:
        if (!lane.point.reached().ok()) ++failed;
    }
  }
  for (size_t i = 0; i < streams_each; ++i) FakePlugin::release(lanes[thread * streams_each + i].stream);
}

}  // namespace

TEST_CASE("streams under threads: work after a wait never runs before what it waited for") {
  const uint64_t operations = test::full_or("operations", 20'000, 1'000'000);
  const uint64_t seed = test::seed();
  Stress all;
  std::vector<std::thread> threads;
  for (size_t i = 0; i < thread_count; ++i)
    threads.emplace_back([&, i] { all.run(i, seed, operations / thread_count); });
  for (std::thread& thread : threads) thread.join();
  for (Lane& lane : all.lanes) {
    REQUIRE(lane.stream.sync().ok());
    REQUIRE(lane.done == lane.enqueued);
  }
  CHECK(all.early == 0);
  CHECK(all.failed == 0);
  CHECK(all.waits > operations / 8);
  CHECK(all.near_plugin.calls().promise > 0);
}
