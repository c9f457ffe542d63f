// SPDX-License-Identifier: Apache-2.0
// Streams and points: record, wait, sync, and what they refuse.
#include "fake_plugin.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>

using namespace tenon;
using namespace std::chrono_literals;
using test::FakePlugin;

namespace {

struct Pair {
  FakePlugin plugin;
  Device device = plugin.open();
  Stream a = *device.stream({.name = "a"});
  Stream b = *device.stream({.name = "b"});
  Buffer memory = *device.allocate(a, 64);

  // Enqueues something on `stream`.
  void work(Stream& stream) { REQUIRE(stream.fill(memory, 1).ok()); }
};

}  // namespace

TEST_CASE("stream: a default-made point is reached") {
  const Point point;
  CHECK(*point.reached());
  CHECK(point.sync(0ns).ok());
  CHECK(point.timestamp().code() == TN_INVALID);
}

TEST_CASE("stream: a point is reached when the work before it has run") {
  Pair pair;
  FakePlugin::hold(pair.a);
  pair.work(pair.a);
  const Point point = *pair.a.record();
  CHECK_FALSE(*point.reached());
  FakePlugin::release(pair.a);
  CHECK(*point.reached());
  CHECK(point.sync().ok());
}

TEST_CASE("stream: record may repeat a value when nothing was enqueued") {
  Pair pair;
  pair.work(pair.a);
  CHECK(pair.a.record()->value() == pair.a.record()->value());
}

TEST_CASE("stream: a timeout poisons nothing") {
  Pair pair;
  FakePlugin::hold(pair.a);
  pair.work(pair.a);
  const Point point = *pair.a.record();
  for (const Timeout timeout : {Timeout(0), Timeout(-5), Timeout(1ms)}) {
    const Status late = point.sync(timeout);
    CHECK(late.code() == TN_TIMEOUT);
    CHECK(late.message().find("stream 'a' has not reached 1") != std::string_view::npos);
  }
  CHECK(pair.a.sync(1ms).code() == TN_TIMEOUT);
  FakePlugin::release(pair.a);
  CHECK(point.sync().ok());
  CHECK(pair.a.sync().ok());
}

TEST_CASE("stream: waiting for a reached value costs no call") {
  Pair pair;
  pair.work(pair.a);
  const Point point = *pair.a.record();
  REQUIRE(point.sync().ok());
  const uint64_t asked = pair.plugin.calls().query + pair.plugin.calls().sync;
  for (int i = 0; i < 10; ++i) REQUIRE(pair.b.wait(point).ok());
  CHECK(pair.plugin.calls().wait == 0);
  CHECK(pair.plugin.calls().query + pair.plugin.calls().sync == asked);
}

TEST_CASE("stream: waiting for a value that turns out to be reached asks once and enqueues nothing") {
  Pair pair;
  pair.work(pair.a);
  const Point point = *pair.a.record();
  for (int i = 0; i < 10; ++i) REQUIRE(pair.b.wait(point).ok());
  CHECK(pair.plugin.calls().query == 1);
  CHECK(pair.plugin.calls().wait == 0);
}

TEST_CASE("stream: a host that polls gets there where query lags behind") {
  FakePlugin plugin({.query_lags = true});
  Device device = plugin.open();
  Stream stream = *device.stream();
  const Buffer memory = *device.allocate(stream, 8);
  FakePlugin::hold(stream);
  REQUIRE(stream.fill(memory, 1).ok());
  const Point point = *stream.record();
  CHECK_FALSE(*point.reached());
  FakePlugin::release(stream);
  CHECK(*point.reached());
  CHECK(plugin.calls().blocking_sync == 0);
}

TEST_CASE("stream: where query lags behind, a wait is the device's, and asks once") {
  FakePlugin plugin({.query_lags = true});
  Device device = plugin.open();
  Stream a = *device.stream(), b = *device.stream();
  const Buffer memory = *device.allocate(a, 8);
  REQUIRE(a.fill(memory, 1).ok());
  REQUIRE(b.wait(*a.record()).ok());
  CHECK(plugin.calls().query == 1);
  CHECK(plugin.calls().sync == 0);
  CHECK(plugin.calls().wait == 1);
  CHECK(b.sync().ok());
}

TEST_CASE("stream: later work starts after the point") {
  Pair pair;
  FakePlugin::hold(pair.a);
  pair.work(pair.a);
  REQUIRE(pair.b.wait(*pair.a.record()).ok());
  pair.work(pair.b);
  const Point after = *pair.b.record();
  CHECK(pair.plugin.calls().wait == 1);
  CHECK_FALSE(*after.reached());
  FakePlugin::release(pair.a);
  CHECK(*after.reached());
}

TEST_CASE("stream: a stream may wait for itself at no cost") {
  Pair pair;
  FakePlugin::hold(pair.a);
  pair.work(pair.a);
  REQUIRE(pair.a.wait(*pair.a.record()).ok());
  CHECK(pair.plugin.calls().wait == 0);
  FakePlugin::release(pair.a);
  CHECK(pair.a.sync().ok());
}

TEST_CASE("stream: waiting for a value neither recorded nor promised is TN_INVALID") {
  Pair pair;
  const Point bogus(detail::Ref<detail::StreamState>::share(pair.a.state()), 99);
  CHECK(pair.b.wait(bogus).code() == TN_INVALID);
  CHECK(pair.a.wait(bogus).code() == TN_INVALID);
  CHECK(bogus.sync().code() == TN_INVALID);
  CHECK(pair.b.sync().ok());
}

TEST_CASE("stream: a point keeps its stream alive") {
  Pair pair;
  FakePlugin::hold(pair.a);
  pair.work(pair.a);
  Point point = *pair.a.record();
  FakePlugin::release(pair.a);
  pair.memory = Buffer();
  pair.a = Stream();
  CHECK(pair.plugin.calls().destroy == 0);
  CHECK(*point.reached());
  point = Point();
  CHECK(pair.plugin.calls().destroy == 1);
  CHECK(pair.plugin.calls().abandon == 0);
}

TEST_CASE("stream: a wrong priority is the plugin's TN_INVALID") {
  Pair pair;
  const auto stream = pair.device.stream({.priority = 7});
  REQUIRE(stream.code() == TN_INVALID);
  CHECK(stream.error().message == "priority 7");
  CHECK(stream.error().native_code == 77);
  CHECK(stream.error().domain == "fake");
}

TEST_CASE("stream: timestamps come from the plugin, or are TN_UNSUPPORTED") {
  Pair pair;
  pair.work(pair.a);
  CHECK(*pair.a.record(Timed::yes)->timestamp() == 1000);
  FakePlugin without({.timestamps = false});
  Device device = without.open();
  Stream stream = *device.stream();
  CHECK(stream.record()->timestamp().code() == TN_UNSUPPORTED);
}

TEST_CASE("stream: unnamed streams get names of their own") {
  Pair pair;
  const Stream one = *pair.device.stream(), two = *pair.device.stream();
  CHECK(one.name() != two.name());
  CHECK(one.name().substr(0, 6) == "fake:0");
}

TEST_CASE("stream: a host call runs in stream order") {
  Pair pair;
  int calls = 0;
  FakePlugin::hold(pair.a);
  REQUIRE(pair.a.host_call([&] { ++calls; }).ok());
  CHECK(calls == 0);
  FakePlugin::release(pair.a);
  CHECK(calls == 1);
}

TEST_CASE("stream: a host call that throws harms nothing but the log") {
  Pair pair;
  REQUIRE(pair.a.host_call([] { throw std::runtime_error("oops"); }).ok());
  CHECK(pair.a.sync().ok());
  CHECK(pair.plugin.logged().find("stream 'a' threw: oops") != std::string::npos);
}

TEST_CASE("stream: without native host calls the host synchronises and calls itself") {
  FakePlugin plugin({.host_calls = false});
  Device device = plugin.open();
  const auto said = [](const std::string& text) { return text.find("host call") != std::string::npos; };
  CHECK(std::count_if(device.emulated().begin(), device.emulated().end(), said) == 1);
  Stream stream = *device.stream();
  const Buffer memory = *device.allocate(stream, 1);
  unsigned char seen = 0;
  REQUIRE(stream.fill(memory, 9).ok());
  REQUIRE(stream.host_call([&] { seen = *reinterpret_cast<unsigned char*>(*memory.address()); }).ok());
  CHECK(seen == 9);
}

TEST_CASE("stream: filling nothing is legal and calls nobody") {
  Pair pair;
  CHECK(pair.a.fill({}).ok());
  CHECK(pair.plugin.calls().fill == 0);
}
