// SPDX-License-Identifier: Apache-2.0
// The pool in stream order: who gets a released block, and when.
#include "fake_plugin.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <thread>
#include <vector>

using namespace tenon;
using test::FakePlugin;

namespace {

constexpr uint64_t page = 2u << 20;

struct Two {
  explicit Two(test::FakeOptions options = {}, double fraction = 1)
      : plugin(std::move(options)), device(plugin.open(0, fraction)) {}
  FakePlugin plugin;
  Device device;
  Stream a = *device.stream({.name = "a"});
  Stream b = *device.stream({.name = "b"});
};

bool same_place(const tn_span& one, const tn_span& other) {
  return one.memory == other.memory && one.offset == other.offset;
}

bool overlap(const tn_span& one, const tn_span& other) {
  return one.memory == other.memory && one.offset < other.offset + other.bytes &&
         other.offset < one.offset + one.bytes;
}

bool says(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

}  // namespace

TEST_CASE("pool: a stream gets its own memory back at once, with its work still in flight") {
  Two two;
  FakePlugin::hold(two.a);
  tn_span place;
  {
    const Buffer first = *two.device.allocate(two.a, 1000);
    place = first;
    REQUIRE(two.a.fill(first, 1).ok());
  }
  const Buffer second = *two.device.allocate(two.a, 900);
  CHECK(same_place(place, second));
  CHECK(second.span().bytes == 900);
  CHECK(two.plugin.calls().alloc == 1);
  FakePlugin::release(two.a);
}

TEST_CASE("pool: live buffers never overlap, and each is aligned as the device promises") {
  Two two({.alignment = 4096});
  std::vector<Buffer> buffers;
  for (uint64_t i = 0; i < 300; ++i)
    buffers.push_back(*two.device.allocate(i % 2 != 0 ? two.a : two.b, 1 + i * 77));
  for (size_t i = 0; i < buffers.size(); ++i) {
    CHECK(buffers[i].span().offset % 4096 == 0);
    for (size_t j = 0; j < i; ++j) REQUIRE_FALSE(overlap(buffers[i], buffers[j]));
  }
}

TEST_CASE("pool: zero bytes are legal and take nothing") {
  Two two;
  Buffer none = *two.device.allocate(two.a, 0);
  CHECK_FALSE(static_cast<bool>(none));
  CHECK(none.span().bytes == 0);
  CHECK(*none.address() == 0);
  CHECK(none.slice(0, 0).ok());
  CHECK(none.used_on(two.b).ok());
  CHECK(two.plugin.calls().alloc == 0);
  CHECK(two.device.pool_stats().allocations == 0);
}

TEST_CASE("pool: a slice lies inside") {
  Two two;
  const Buffer buffer = *two.device.allocate(two.a, 100);
  const tn_span part = *buffer.slice(40, 60);
  CHECK(part.offset == buffer.span().offset + 40);
  CHECK(part.bytes == 60);
  CHECK(buffer.slice(100, 0).ok());
  for (const auto& [offset, bytes] : {std::pair<uint64_t, uint64_t>{40, 61}, {101, 0}, {1, UINT64_MAX}})
    CHECK(buffer.slice(offset, bytes).code() == TN_INVALID);
}

TEST_CASE("pool: an address is the memory's plus the block's place, where the device has addresses") {
  Two two;
  const Buffer one = *two.device.allocate(two.a, 100), other = *two.device.allocate(two.a, 100);
  CHECK(*other.address() - *one.address() == other.span().offset - one.span().offset);
  FakePlugin handles({.features = 0});
  Device device = handles.open();
  Stream stream = *device.stream();
  const Buffer buffer = *device.allocate(stream, 1);
  CHECK(buffer.address().code() == TN_UNSUPPORTED);
}

TEST_CASE("pool: a stream of another device is refused") {
  FakePlugin plugin;
  Device one = plugin.open(0), two = plugin.open(1);
  Stream stream = *two.stream({.name = "s"});
  const auto buffer = one.allocate(stream, 8);
  REQUIRE(buffer.code() == TN_INVALID);
  CHECK(says(buffer.message(), "device 'fake:0' in the order of stream 's' of device 'fake:1'"));
  CHECK(two.allocate(stream, 8, static_cast<MemoryKind>(9)).code() == TN_INVALID);
}

TEST_CASE("pool: a request beyond any device is the caller's mistake") {
  Two two;
  CHECK(two.device.allocate(two.a, UINT64_MAX).code() == TN_INVALID);
  CHECK(two.device.allocate(two.a, (1ull << 48) + 1).code() == TN_INVALID);
  CHECK(two.plugin.calls().alloc == 0);
}

TEST_CASE("pool: another stream does not get memory whose last use is in flight") {
  Two two;
  FakePlugin::hold(two.a);
  Buffer first = *two.device.allocate(two.a, page);
  const tn_span place = first;
  REQUIRE(two.a.fill(first, 1).ok());
  first = Buffer();
  const Buffer second = *two.device.allocate(two.b, page);
  CHECK_FALSE(same_place(place, second));
  CHECK(two.plugin.calls().alloc == 2);
  FakePlugin::release(two.a);
}

TEST_CASE("pool: before out-of-memory it waits for work in flight and takes what other streams released") {
  Two two({.memory_bytes = page});
  FakePlugin::hold(two.a);
  const void* place = nullptr;
  {
    const Buffer first = *two.device.allocate(two.a, page);
    place = first.span().memory;
    REQUIRE(two.a.fill(first, 1).ok());
  }
  REQUIRE(two.a.record().ok());
  std::atomic<bool> released{false};
  std::thread later([&] {
    while (two.plugin.calls().blocking_sync == 0) std::this_thread::yield();
    released = true;
    FakePlugin::release(two.a);
  });
  const auto second = two.device.allocate(two.b, page);
  CHECK(released);
  REQUIRE_MESSAGE(second.ok(), second.message());
  CHECK(second->span().memory == place);
  later.join();
  CHECK(two.device.pool_stats().trims == 1);
}

TEST_CASE("pool: memory released after the last record stays with its stream, and the error says so") {
  Two two({.memory_bytes = page});
  {
    const Buffer first = *two.device.allocate(two.a, page);
    REQUIRE(two.a.fill(first, 1).ok());
  }
  const auto second = two.device.allocate(two.b, 3 * page / 4);
  REQUIRE(second.code() == TN_NO_MEMORY);
  CHECK(says(second.message(), "device 'fake:0' has no memory for 1.50 MiB on stream 'b'"));
  CHECK(says(second.message(), "buffers hold 0 bytes of 2.00 MiB reserved"));
  CHECK(says(second.message(), "2.00 MiB were released on stream 'a'"));
  CHECK(says(second.message(), "fake memory is full"));
  CHECK(second.error().native_code == 77);
  REQUIRE(two.a.sync().ok());
  CHECK(two.device.allocate(two.b, page).ok());
}

TEST_CASE("pool: memory released after a sync is free for all without another record") {
  Two two({.memory_bytes = page});
  {
    const Buffer first = *two.device.allocate(two.a, page);
    REQUIRE(two.a.fill(first, 1).ok());
    REQUIRE(two.a.sync().ok());
  }
  CHECK(two.device.allocate(two.b, page).ok());
}

TEST_CASE("pool: out-of-memory tries the exact size where whole pages do not fit") {
  Two two({.memory_bytes = 1u << 20});
  const auto buffer = two.device.allocate(two.a, 300'000);
  REQUIRE(buffer.ok());
  CHECK(two.device.pool_stats().reserved_bytes < 1u << 20);
}

TEST_CASE("pool: out-of-memory gives whole free segments back and tries again") {
  Two two({.memory_bytes = 8 * page});
  for (int i = 0; i < 4; ++i) {
    const Buffer each = *two.device.allocate(two.a, 2 * page - page * static_cast<uint64_t>(i) / 4);
  }
  REQUIRE(two.a.sync().ok());
  const auto big = two.device.allocate(two.a, 8 * page);
  REQUIRE_MESSAGE(big.ok(), big.message());
  CHECK(two.plugin.calls().free > 0);
}

TEST_CASE("pool: other failures of the device are told as they are") {
  Two two;
  two.plugin.refuse_memory(TN_DEVICE_LOST);
  CHECK(two.device.allocate(two.a, 8).code() == TN_DEVICE_LOST);
  two.plugin.refuse_memory(TN_OK);
  CHECK(two.device.allocate(two.a, 8).ok());
  CHECK(two.device.allocate(two.a, 8, MemoryKind::managed).code() == TN_UNSUPPORTED);
}

TEST_CASE("pool: a declared use on another stream keeps the memory until it is reached") {
  for (const bool query_lags : {false, true}) {
    CAPTURE(query_lags);
    Two two({.query_lags = query_lags});
    FakePlugin::hold(two.b);
    Buffer shared = *two.device.allocate(two.a, 5000);
    const tn_span place = shared;
    REQUIRE(two.b.fill(shared, 1).ok());
    REQUIRE(shared.used_on(two.b).ok());
    shared = Buffer();
    Buffer other = *two.device.allocate(two.a, 5000);
    CHECK_FALSE(same_place(place, other));
    FakePlugin::release(two.b);
    const Buffer again = *two.device.allocate(two.a, 5000);
    CHECK(same_place(place, again));
  }
}

TEST_CASE("pool: with uses on several streams the last one counts") {
  Two two;
  Stream c = *two.device.stream({.name = "c"});
  FakePlugin::hold(two.b);
  FakePlugin::hold(c);
  Buffer shared = *two.device.allocate(two.a, 5000);
  const tn_span place = shared;
  for (Stream* stream : {&two.b, &c}) {
    for (int i = 0; i < 3; ++i) {
      REQUIRE(stream->fill(shared, 1).ok());
      REQUIRE(shared.used_on(*stream).ok());
    }
  }
  shared = Buffer();
  FakePlugin::release(two.b);
  FakePlugin::step(c, 2);
  const Buffer other = *two.device.allocate(two.a, 5000);
  CHECK_FALSE(same_place(place, other));
  FakePlugin::step(c, 1);
  const Buffer again = *two.device.allocate(two.a, 5000);
  CHECK(same_place(place, again));
  FakePlugin::release(c);
}

TEST_CASE("pool: a use on the owner's own stream is no use") {
  Two two;
  Buffer buffer = *two.device.allocate(two.a, 8);
  CHECK(buffer.used_on(two.a).ok());
  CHECK(two.plugin.calls().record == 0);
}

TEST_CASE("pool: a use on a failed stream is told, and its memory waits for that stream's end") {
  Two two({.memory_bytes = page});
  Buffer shared = *two.device.allocate(two.a, page);
  FakePlugin::hold(two.b);
  FakePlugin::fail_next(two.b, TN_INTERNAL, "it broke");
  REQUIRE(two.b.fill(shared, 1).ok());
  REQUIRE(shared.used_on(two.b).ok());
  FakePlugin::release(two.b);
  CHECK_FALSE(two.b.sync().ok());
  CHECK(shared.used_on(two.b).code() == TN_INTERNAL);
  shared = Buffer();
  CHECK(two.device.allocate(two.a, page).code() == TN_NO_MEMORY);
  two.b = Stream();
  CHECK(two.device.allocate(two.a, page).ok());
}

TEST_CASE("pool: when a stream ends, what it released is free for all") {
  Two two({.memory_bytes = page});
  {
    const Buffer first = *two.device.allocate(two.a, page);
    REQUIRE(two.a.fill(first, 1).ok());
  }
  two.a = Stream();
  CHECK(two.device.allocate(two.b, page).ok());
  CHECK(two.plugin.calls().alloc == 1);
}
