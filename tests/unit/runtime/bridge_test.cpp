// SPDX-License-Identifier: Apache-2.0
// Waits between plugins, and between devices of a plugin that cannot connect them.
#include "fake_plugin.hpp"

#include <doctest/doctest.h>

#include <thread>
#include <vector>

using namespace tenon;
using test::FakePlugin;

namespace {

struct Worlds {
  FakePlugin here;
  FakePlugin there{{.name = "other"}};
  Device device = here.open(), far_device = there.open();
  Stream stream = *device.stream({.name = "near"});
  Stream source = *far_device.stream({.name = "far"});
  Buffer memory = *device.allocate(stream, 64), far_memory = *far_device.allocate(source, 64);

  Point far_work() {
    REQUIRE(source.fill(far_memory, 1).ok());
    return *source.record();
  }
  Point near_work() {
    REQUIRE(stream.fill(memory, 1).ok());
    return *stream.record();
  }
};

}  // namespace

TEST_CASE("bridge: a wait across plugins holds until the point is reached") {
  Worlds worlds;
  FakePlugin::hold(worlds.source);
  REQUIRE(worlds.stream.wait(worlds.far_work()).ok());
  const Point after = worlds.near_work();
  CHECK(worlds.here.calls().promise == 1);
  CHECK(worlds.there.calls().promise == 0);
  CHECK(after.sync(std::chrono::milliseconds(2)).code() == TN_TIMEOUT);
  FakePlugin::release(worlds.source);
  CHECK(after.sync().ok());
  CHECK(worlds.here.calls().signal == 1);
}

TEST_CASE("bridge: a wait across plugins ends where the source's query lags behind") {
  FakePlugin here, there({.name = "other", .query_lags = true});
  Device device = here.open(), far_device = there.open();
  Stream stream = *device.stream(), source = *far_device.stream();
  const Buffer memory = *device.allocate(stream, 8), far_memory = *far_device.allocate(source, 8);
  FakePlugin::hold(source);
  REQUIRE(source.fill(far_memory, 1).ok());
  REQUIRE(stream.wait(*source.record()).ok());
  REQUIRE(stream.fill(memory, 1).ok());
  FakePlugin::release(source);
  CHECK(stream.sync(std::chrono::seconds(20)).ok());
  CHECK(here.calls().signal == 1);
}

TEST_CASE("bridge: a reached point of another plugin needs none") {
  Worlds worlds;
  REQUIRE(worlds.stream.wait(worlds.far_work()).ok());
  CHECK(worlds.here.calls().promise == 0);
}

TEST_CASE("bridge: devices of one plugin are bridged unless it connects them") {
  for (const bool connects : {false, true}) {
    FakePlugin plugin({.features = connects ? TN_FEATURE_CROSS_DEVICE_WAIT : 0});
    Device one = plugin.open(0), two = plugin.open(1);
    Stream a = *one.stream(), b = *two.stream();
    const Buffer memory = *one.allocate(a, 8);
    FakePlugin::hold(a);
    REQUIRE(a.fill(memory, 1).ok());
    REQUIRE(b.wait(*a.record()).ok());
    CHECK(plugin.calls().promise == (connects ? 0 : 1));
    CHECK(plugin.calls().wait == 1);
    FakePlugin::release(a);
    CHECK(b.sync().ok());
  }
}

TEST_CASE("bridge: many pending waits are kept in order") {
  Worlds worlds;
  FakePlugin::hold(worlds.source);
  std::vector<Point> after;
  for (int i = 0; i < 100; ++i) {
    REQUIRE(worlds.stream.wait(worlds.far_work()).ok());
    after.push_back(worlds.near_work());
  }
  FakePlugin::step(worlds.source, 50);
  CHECK(after[49].sync().ok());
  CHECK_FALSE(*after[50].reached());
  FakePlugin::release(worlds.source);
  CHECK(after.back().sync().ok());
  CHECK(worlds.here.calls().signal == 100);
}

TEST_CASE("bridge: a failure on the far side is carried, and nothing hangs") {
  Worlds worlds;
  FakePlugin::hold(worlds.source);
  FakePlugin::fail_next(worlds.source, TN_DEVICE_LOST, "it broke");
  REQUIRE(worlds.stream.wait(worlds.far_work()).ok());
  const Point after = worlds.near_work();
  FakePlugin::release(worlds.source);
  const Status told = after.sync();
  CHECK(told.code() == TN_DEVICE_LOST);
  CHECK(told.message() == "stream 'near' waited for stream 'far', which failed: it broke");
  CHECK(worlds.stream.record().code() == TN_DEVICE_LOST);
}

TEST_CASE("bridge: without promises the host blocks, and then all is done") {
  FakePlugin here({.promises = false});
  FakePlugin there({.name = "other"});
  Device device = here.open(), far_device = there.open();
  Stream stream = *device.stream({.name = "near"}), source = *far_device.stream({.name = "far"});
  const Buffer far_memory = *far_device.allocate(source, 8);
  FakePlugin::hold(source);
  REQUIRE(source.fill(far_memory, 1).ok());
  const Point point = *source.record();
  std::thread later([&] { FakePlugin::release(source); });
  CHECK(stream.wait(point).ok());
  CHECK(*point.reached());
  later.join();

  FakePlugin::hold(source);
  FakePlugin::fail_next(source, TN_DEVICE_LOST, "it broke");
  REQUIRE(source.fill(far_memory, 1).ok());
  const Point lost = *source.record();
  std::thread again([&] { FakePlugin::release(source); });
  CHECK(stream.wait(lost).message() == "stream 'near' waited for stream 'far', which failed: it broke");
  again.join();
  CHECK(stream.record().code() == TN_DEVICE_LOST);
}

TEST_CASE("bridge: a value that was never recorded is TN_INVALID there too") {
  Worlds worlds;
  const Point bogus(detail::Ref<detail::StreamState>::share(worlds.source.state()), 99);
  CHECK(worlds.stream.wait(bogus).code() == TN_INVALID);
  CHECK(worlds.stream.sync().ok());
}

TEST_CASE("bridge: the source may be dropped while it is awaited") {
  Worlds worlds;
  FakePlugin::hold(worlds.source);
  REQUIRE(worlds.stream.wait(worlds.far_work()).ok());
  const Point after = worlds.near_work();
  worlds.far_memory = Buffer();
  worlds.source = Stream();
  worlds.far_device = Device();
  CHECK(after.sync().ok());
  CHECK(worlds.there.live() == 0);
}

TEST_CASE("bridge: the waiting stream may be dropped first") {
  Worlds worlds;
  FakePlugin::hold(worlds.source);
  REQUIRE(worlds.stream.wait(worlds.far_work()).ok());
  worlds.near_work();
  std::thread later([&] { FakePlugin::release(worlds.source); });
  worlds.memory = Buffer();
  worlds.stream = Stream();  // blocks until its work is complete
  later.join();
  worlds.device = Device();
  CHECK(worlds.here.live() == 0);
}

TEST_CASE("bridge: a poisoned stream drops its unkept promises") {
  Worlds worlds;
  FakePlugin::hold(worlds.source);
  const Point point = worlds.far_work();
  FakePlugin::hold(worlds.stream);
  FakePlugin::fail_next(worlds.stream, TN_INTERNAL, "near broke");
  REQUIRE(worlds.stream.fill(worlds.memory, 1).ok());
  REQUIRE(worlds.stream.wait(point).ok());
  FakePlugin::step(worlds.stream, 1);
  CHECK_FALSE(worlds.stream.sync().ok());
  worlds.memory = Buffer();
  worlds.stream = Stream();
  worlds.device = Device();
  CHECK(worlds.here.live() == 0);
  CHECK(worlds.here.calls().signal == 0);
  FakePlugin::release(worlds.source);
}

TEST_CASE("bridge: streams of two plugins may wait for each other") {
  Worlds worlds;
  for (int round = 0; round < 200; ++round) {
    REQUIRE(worlds.stream.wait(worlds.far_work()).ok());
    REQUIRE(worlds.source.wait(worlds.near_work()).ok());
  }
  CHECK(worlds.source.sync().ok());
  CHECK(worlds.stream.sync().ok());
}
