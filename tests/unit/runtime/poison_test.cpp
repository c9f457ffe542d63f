// SPDX-License-Identifier: Apache-2.0
// How the failure of one stream becomes that of the streams that waited for it, and of no other.
#include "fake_plugin.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace tenon;
using test::FakePlugin;

namespace {

struct Three {
  FakePlugin plugin;
  Device device = plugin.open();
  Stream a = *device.stream({.name = "a"});
  Stream b = *device.stream({.name = "b"});
  Stream c = *device.stream({.name = "c"});
  Buffer memory = *device.allocate(a, 64);

  Point work(Stream& stream) {
    REQUIRE(stream.fill(memory, 1).ok());
    return *stream.record();
  }
};

const std::string by_b = "stream 'b' waited for stream 'a', which failed: it broke";
const std::string by_c =
    "stream 'c' waited for stream 'b', which waited for stream 'a', which failed: it broke";

void check_told(const Status& status, const std::string& message) {
  REQUIRE_FALSE(status.ok());
  CHECK(status.code() == TN_DEVICE_LOST);
  CHECK(status.message() == message);
  CHECK((status.error().flags & TN_ERROR_ASYNC) != 0);
  CHECK(status.error().domain == "fake");
  CHECK(status.error().native_code == 77);
}

}  // namespace

TEST_CASE("poison: a stream tells its own failure from every later call") {
  Three three;
  FakePlugin::fail_next(three.a, TN_INTERNAL, "it broke");
  REQUIRE(three.a.fill(three.memory, 1).ok());
  const auto check = [](const Status& status) {
    REQUIRE(status.code() == TN_INTERNAL);
    CHECK(status.message() == "it broke");
  };
  check(three.a.sync());
  check(Status(three.a.record().error()));
  check(three.a.fill(three.memory, 1));
  check(three.a.copy(three.memory, three.memory));
  check(three.a.wait(Point()));
  check(three.a.host_call([] {}));
}

TEST_CASE("poison: it is carried over three streams, naming each") {
  Three three;
  FakePlugin::hold(three.a);
  FakePlugin::fail_next(three.a, TN_DEVICE_LOST, "it broke");
  const Point lost = three.work(three.a);
  REQUIRE(three.b.wait(lost).ok());
  const Point after_b = three.work(three.b);
  REQUIRE(three.c.wait(after_b).ok());
  const Point after_c = three.work(three.c);
  FakePlugin::release(three.a);

  check_told(three.c.sync(), by_c);
  check_told(after_c.sync(), by_c);
  check_told(after_b.sync(), by_b);
  check_told(three.b.sync(), by_b);
  CHECK(lost.sync().message() == "it broke");
  check_told(Status(three.c.record().error()), by_c);
  check_told(Status(after_c.reached().error()), by_c);
  check_told(three.c.wait(lost), by_c);
  check_told(three.c.fill(three.memory, 1), by_c);
}

TEST_CASE("poison: record tells it as soon as anyone knows, without being asked to look") {
  Three three;
  FakePlugin::hold(three.a);
  FakePlugin::fail_next(three.a, TN_DEVICE_LOST, "it broke");
  const Point lost = three.work(three.a);
  REQUIRE(three.b.wait(lost).ok());
  REQUIRE(three.c.wait(three.work(three.b)).ok());
  FakePlugin::release(three.a);
  CHECK_FALSE(lost.sync().ok());
  check_told(Status(three.c.record().error()), by_c);
  check_told(Status(three.b.record().error()), by_b);
}

TEST_CASE("poison: waiting for a lost point fails at once and poisons") {
  Three three;
  FakePlugin::fail_next(three.a, TN_DEVICE_LOST, "it broke");
  REQUIRE(three.a.fill(three.memory, 1).ok());
  const Point bogus(detail::Ref<detail::StreamState>::share(three.a.state()), 1);
  check_told(three.b.wait(bogus), by_b);
  check_told(three.b.sync(), by_b);
  CHECK(three.plugin.calls().wait == 0);
}

TEST_CASE("poison: points reached before the failure stay good") {
  Three three;
  FakePlugin::hold(three.a);
  const Point good = three.work(three.a);
  FakePlugin::hold(three.b);
  REQUIRE(three.b.wait(good).ok());
  const Point good_b = three.work(three.b);
  FakePlugin::fail_next(three.a, TN_DEVICE_LOST, "it broke");
  const Point lost = three.work(three.a);
  REQUIRE(three.b.wait(lost).ok());
  const Point lost_b = three.work(three.b);
  FakePlugin::release(three.a);
  FakePlugin::release(three.b);
  check_told(three.b.sync(), by_b);
  CHECK(good.sync().ok());
  CHECK(*good.reached());
  CHECK(good_b.sync().ok());
  CHECK(*good_b.reached());
  CHECK_FALSE(lost.sync().ok());
  check_told(lost_b.sync(), by_b);
  // And who waits for a good point of a poisoned stream is not poisoned.
  CHECK(three.c.wait(good_b).ok());
  CHECK(three.c.wait(good).ok());
  CHECK(three.c.sync().ok());
}

TEST_CASE("poison: a later value of a failed stream is not what an earlier waiter needs") {
  Three three;
  FakePlugin::hold(three.a);
  const Point good = three.work(three.a);
  FakePlugin::fail_next(three.a, TN_DEVICE_LOST, "it broke");
  const Point lost = three.work(three.a);
  REQUIRE(three.b.wait(good).ok());
  const Point after = three.work(three.b);
  FakePlugin::release(three.a);
  CHECK_FALSE(lost.sync().ok());
  CHECK(three.b.record().ok());
  CHECK(after.sync().ok());
  CHECK(three.b.sync().ok());
}

TEST_CASE("poison: a timeout is no failure of the streams that wait") {
  Three three;
  FakePlugin::hold(three.a);
  REQUIRE(three.b.wait(three.work(three.a)).ok());
  const Point after = three.work(three.b);
  CHECK(after.sync(Timeout(1000)).code() == TN_TIMEOUT);
  CHECK_FALSE(*after.reached());
  FakePlugin::release(three.a);
  CHECK(after.sync().ok());
  CHECK(three.b.record().ok());
}

TEST_CASE("poison: streams that wait for each other carry it both ways and end") {
  Three three;
  FakePlugin::hold(three.a);
  const Point a1 = three.work(three.a);
  REQUIRE(three.b.wait(a1).ok());
  const Point b1 = three.work(three.b);
  REQUIRE(three.a.wait(b1).ok());
  FakePlugin::fail_next(three.a, TN_DEVICE_LOST, "it broke");
  const Point a2 = three.work(three.a);
  REQUIRE(three.b.wait(a2).ok());
  const Point b2 = three.work(three.b);
  FakePlugin::release(three.a);
  CHECK(b1.sync().ok());
  check_told(b2.sync(), by_b);
  CHECK(a1.sync().ok());
  CHECK(a2.sync().message() == "it broke");
}

TEST_CASE("poison: the awaited stream may be gone when its failure is found") {
  Three three;
  FakePlugin::hold(three.a);
  FakePlugin::fail_next(three.a, TN_DEVICE_LOST, "it broke");
  REQUIRE(three.b.wait(three.work(three.a)).ok());
  const Point after = three.work(three.b);
  three.memory = Buffer();
  three.a = Stream();
  check_told(after.sync(), by_b);
  CHECK(three.plugin.logged().find("stream 'a' failed, and nobody was told before it ended: it broke") !=
        std::string::npos);
}

TEST_CASE("poison: a good stream that is gone leaves its waiters good") {
  Three three;
  FakePlugin::hold(three.a);
  REQUIRE(three.b.wait(three.work(three.a)).ok());
  const Point after = three.work(three.b);
  three.memory = Buffer();
  three.a = Stream();
  CHECK(after.sync().ok());
}

TEST_CASE("poison: a poisoned stream is abandoned, a healthy one completed") {
  Three three;
  FakePlugin::fail_next(three.a, TN_DEVICE_LOST, "it broke");
  REQUIRE(three.a.fill(three.memory, 1).ok());
  CHECK_FALSE(three.a.sync().ok());
  three.memory = Buffer();
  three.a = Stream();
  CHECK(three.plugin.calls().abandon == 1);
  three.b = Stream();
  CHECK(three.plugin.calls().destroy == 2);
  CHECK(three.plugin.calls().abandon == 1);
}

TEST_CASE("poison: recovery is a new stream") {
  Three three;
  FakePlugin::fail_next(three.a, TN_INTERNAL, "it broke");
  REQUIRE(three.a.fill(three.memory, 1).ok());
  CHECK_FALSE(three.a.sync().ok());
  three.memory = Buffer();
  three.a = *three.device.stream({.name = "a again"});
  three.memory = *three.device.allocate(three.a, 64);
  three.work(three.a);
  CHECK(three.a.sync().ok());
}

TEST_CASE("poison: a host call that a failed stream never ran is dropped with the stream") {
  FakePlugin plugin;
  Device device = plugin.open();
  Stream stream = *device.stream();
  auto alive = std::make_shared<int>(1);
  FakePlugin::hold(stream);
  FakePlugin::fail_next(stream, TN_INTERNAL, "it broke");
  REQUIRE(stream.host_call([] {}).ok());
  REQUIRE(stream.host_call([alive] { FAIL("ran after the failure was told"); }).ok());
  FakePlugin::step(stream);
  CHECK_FALSE(Point(detail::Ref<detail::StreamState>::share(stream.state()), 1).sync().ok());
  stream = Stream();
  CHECK(alive.use_count() == 1);
}

TEST_CASE("poison: a mistake of one call is not the stream's failure") {
  Three three;
  CHECK(three.a.fill(three.memory, 1, 3).code() == TN_INVALID);
  CHECK(three.a.sync().ok());
}

TEST_CASE("poison: a long chain of waits is followed to its end") {
  FakePlugin plugin;
  Device device = plugin.open();
  std::vector<Stream> streams;
  for (int i = 0; i < 200; ++i) streams.push_back(*device.stream({.name = std::to_string(i)}));
  const Buffer memory = *device.allocate(streams[0], 8);
  FakePlugin::hold(streams[0]);
  FakePlugin::fail_next(streams[0], TN_DEVICE_LOST, "it broke");
  REQUIRE(streams[0].fill(memory, 1).ok());
  for (size_t i = 1; i < streams.size(); ++i) {
    REQUIRE(streams[i].wait(*streams[i - 1].record()).ok());
    REQUIRE(streams[i].fill(memory, 1).ok());
  }
  FakePlugin::release(streams[0]);
  const Status told = streams.back().sync();
  CHECK(told.code() == TN_DEVICE_LOST);
  CHECK(told.message().substr(0, 31) == "stream '199' waited for stream ");
  CHECK(told.message().find("stream '0', which failed: it broke") != std::string_view::npos);
}
