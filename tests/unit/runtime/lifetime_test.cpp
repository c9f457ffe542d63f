// SPDX-License-Identifier: Apache-2.0
// Everything made from a device may be dropped in any order; the device ends last.
#include "fake_plugin.hpp"

#include <tenon/fragment.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <thread>

using namespace tenon;
using test::FakePlugin;

namespace {

Fragment relu() {
  FragmentBuilder builder;
  const auto x = builder.input({f32, {8}});
  builder.output(builder.node(Op::relu, {x}, {f32, {8}}));
  return *builder.build();
}

struct Things {
  explicit Things(FakePlugin& plugin) {
    device = plugin.open();
    stream = *device.stream();
    buffer = *device.allocate(stream, 100);
    unused = *device.allocate(stream, 50, MemoryKind::host);
    kernel = *device.compile(relu());
    REQUIRE(stream.fill(buffer, 1).ok());
    point = *stream.record();
  }
  Device device;
  Stream stream;
  Buffer buffer, unused;
  Kernel kernel;
  Point point;

  void drop(int which) {
    switch (which) {
      case 0:
        device = Device();
        break;
      case 1:
        stream = Stream();
        break;
      case 2:
        buffer = Buffer();
        break;
      case 3:
        unused = Buffer();
        break;
      case 4:
        kernel = Kernel();
        break;
      default:
        point = Point();
        break;
    }
  }
};

}  // namespace

TEST_CASE("lifetime: every order of dropping is legal, and the device closes with the last") {
  std::array<int, 6> order{0, 1, 2, 3, 4, 5};
  do {
    FakePlugin plugin;
    Things things(plugin);
    for (const int which : order) {
      REQUIRE(plugin.calls().close == 0);
      things.drop(which);
    }
    REQUIRE(plugin.calls().close == 1);
    REQUIRE(plugin.live() == 0);
    REQUIRE(plugin.used_after_free() == 0);
    REQUIRE(plugin.logged().empty());
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_CASE("lifetime: memory is freed before the device closes, and streams end before that") {
  FakePlugin plugin;
  { const Things things(plugin); }
  CHECK(plugin.calls().free == 2);
  CHECK(plugin.calls().destroy == 1);
  CHECK(plugin.logged().empty());
}

TEST_CASE("lifetime: streams that wait for each other end with their last handle") {
  FakePlugin plugin;
  {
    Device device = plugin.open();
    Stream a = *device.stream(), b = *device.stream();
    const Buffer memory = *device.allocate(a, 8);
    FakePlugin::hold(a);
    REQUIRE(a.fill(memory, 1).ok());
    REQUIRE(b.wait(*a.record()).ok());
    REQUIRE(a.wait(*b.record()).ok());
    FakePlugin::release(a);  // the host has not looked since, so each still depends on the other
  }
  CHECK(plugin.live() == 0);
}

TEST_CASE("lifetime: a buffer whose use is on a stream of another device is freed after that use") {
  FakePlugin plugin;
  Device near_device = plugin.open(0), far_device = plugin.open(1);
  Stream near_stream = *near_device.stream(), far_stream = *far_device.stream();
  Buffer buffer = *near_device.allocate(near_stream, 8);
  const Buffer far_buffer = *far_device.allocate(far_stream, 8);
  FakePlugin::hold(far_stream);
  REQUIRE(far_stream.fill(far_buffer, 1)
              .ok());  // as work that reads `buffer` does where devices reach each other
  REQUIRE(buffer.used_on(far_stream).ok());
  std::thread later([&] {
    while (plugin.calls().blocking_sync == 0) std::this_thread::yield();
    FakePlugin::release(far_stream);
  });
  buffer = Buffer();
  near_stream = Stream();
  near_device = Device();  // blocks until the use is reached
  later.join();
  CHECK(plugin.used_after_free() == 0);
  CHECK(plugin.calls().free == 1);
}

TEST_CASE("lifetime: a device may be opened twice, each on its own") {
  FakePlugin plugin;
  Device one = plugin.open(), other = plugin.open();
  CHECK(one.handle() != other.handle());
  Stream stream = *one.stream();
  CHECK(other.allocate(stream, 8).code() == TN_INVALID);
}
