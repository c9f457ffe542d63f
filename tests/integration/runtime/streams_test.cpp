// SPDX-License-Identifier: Apache-2.0
// streams_test.cpp: what one stream promises its host, on every device: order, points, copies, host calls, limits.
#include "integration/device.hpp"

#include <chrono>
#include <numeric>
#include <thread>

using namespace tenon;
using namespace tenon::test;

namespace {

constexpr auto patience = std::chrono::seconds(60);

std::vector<uint8_t> counting(size_t bytes, uint8_t first = 0) {
  std::vector<uint8_t> out(bytes);
  std::iota(out.begin(), out.end(), first);
  return out;
}

}  // namespace

TEST_CASE("streams: a source is free on return, and a destination is whole after a sync") {
  Runtime runtime = open();
  Device device = target(runtime);
  Stream stream = must(device.stream());
  for (const size_t bytes : {1, 255, 4096, 3'000'001}) {
    CAPTURE(bytes);
    const Buffer buffer = must(device.allocate(stream, bytes));
    std::vector<uint8_t> source = counting(bytes, 7), out(bytes);
    must(stream.upload(buffer, source));
    std::fill(source.begin(), source.end(), uint8_t{0});
    must(stream.download(out, buffer));
    must(stream.sync());
    CHECK((out == counting(bytes, 7)));
  }
}

TEST_CASE("streams: a host that polls a point gets there") {
  Runtime runtime = open();
  Device device = target(runtime);
  Stream stream = must(device.stream());
  const Buffer buffer = must(device.allocate(stream, 1 << 20));
  for (int round = 0; round < 20; ++round) {
    must(stream.fill(buffer, static_cast<uint64_t>(round)));
    const Point point = must(stream.record());
    const auto start = std::chrono::steady_clock::now();
    while (!must(point.reached()) && std::chrono::steady_clock::now() - start < patience)
      std::this_thread::yield();
    REQUIRE(must(point.reached()));
  }
}

TEST_CASE("streams: a timeout says where the stream stands, and costs nothing") {
  Runtime runtime = open();
  Device device = target(runtime);
  Stream stream = must(device.stream({.name = "work"}));
  const Buffer buffer = must(device.allocate(stream, 1 << 20));
  must(stream.fill(buffer, 3));
  const Status early = stream.sync(std::chrono::nanoseconds(0));
  if (!early.ok()) {
    CHECK(early.code() == TN_TIMEOUT);
    CHECK_HAS(std::string(early.message()), "stream 'work' has not reached ");
  }
  std::vector<uint8_t> out(1 << 20);
  must(stream.download(out, buffer));
  must(stream.sync());
  CHECK((out == std::vector<uint8_t>(1 << 20, 3)));
}

TEST_CASE("streams: a host call sees what came before it, and nothing after") {
  Runtime runtime = open();
  Device device = target(runtime);
  Stream stream = must(device.stream());
  const Buffer buffer = must(device.allocate(stream, 1024));
  std::vector<uint8_t> out(1024), seen;
  must(stream.fill(buffer, 1));
  must(stream.download(out, buffer));
  must(stream.host_call([&] { seen = out; }));
  must(stream.fill(buffer, 2));
  must(stream.download(out, buffer));
  must(stream.sync());
  CHECK((seen == std::vector<uint8_t>(1024, 1)));
  CHECK((out == std::vector<uint8_t>(1024, 2)));
}

TEST_CASE("streams: a host call that waits for its own stream is told so, and all goes on") {
  Runtime runtime = open();
  Device device = target(runtime);
  Stream stream = must(device.stream());
  const Buffer buffer = must(device.allocate(stream, 1024));
  must(stream.fill(buffer, 1));
  Status waited;
  must(stream.host_call([&] { waited = stream.sync(); }));
  must(stream.sync());
  if (!waited.ok()) {  // else the call ran here, after a sync
    CHECK(waited.code() == TN_INVALID);
    CHECK_HAS(std::string(waited.message()), "a host call of stream");
  }
  must(stream.fill(buffer, 2));
  must(stream.sync());
}

TEST_CASE("streams: a strided copy moves its box and nothing else") {
  Runtime runtime = open();
  Device device = target(runtime);
  Stream stream = must(device.stream());
  // 3 planes of 4 rows of 5 bytes, out of planes of 6 rows of 9, into planes of 5 rows of 8.
  const tn_copy_shape box{.size = sizeof(tn_copy_shape),
                          .rank = 3,
                          .extent = {3, 4, 5, 0},
                          .dst_stride = {40, 8, 1, 0},
                          .src_stride = {54, 9, 1, 0}};
  const std::vector<uint8_t> source = counting(3 * 54);
  const Buffer from = must(device.allocate(stream, source.size())), to = must(device.allocate(stream, 120));
  must(stream.upload(from, source));
  must(stream.fill(to, 0xEE));
  must(stream.copy_strided(to, from, box));
  std::vector<uint8_t> out(120), expected(120, 0xEE);
  must(stream.download(out, to));
  must(stream.sync());
  for (size_t plane = 0; plane < 3; ++plane) {
    for (size_t row = 0; row < 4; ++row) {
      for (size_t i = 0; i < 5; ++i) expected[plane * 40 + row * 8 + i] = source[plane * 54 + row * 9 + i];
    }
  }
  CHECK((out == expected));
}

TEST_CASE("streams: times of one stream follow its order") {
  Runtime runtime = open();
  Device device = target(runtime);
  Stream stream = must(device.stream());
  const Buffer buffer = must(device.allocate(stream, 1 << 16));
  std::vector<Point> points;
  for (int i = 0; i < 10; ++i) {
    must(stream.fill(buffer, 1));
    points.push_back(must(stream.record(Timed::yes)));
  }
  must(stream.sync());
  SKIP_IF_UNSUPPORTED(points.front().timestamp(), "timestamps");
  uint64_t last = 0;
  for (const Point& point : points) {
    const uint64_t time = must(point.timestamp());
    CHECK(time >= last);
    last = time;
  }
}

TEST_CASE("streams: more records than a device has events block or are refused, and the stream stays good") {
  Runtime runtime = open();
  Device device = target(runtime);
  Stream stream = must(device.stream());
  const Buffer buffer = must(device.allocate(stream, 8));
  const uint64_t limit = device.limits().max_pending_records;
  uint64_t last = 0;
  for (uint64_t i = 0; i < (limit != 0 ? limit + 100 : 3000); ++i) {
    must(stream.fill(buffer, i, 8));
    const auto point = stream.record();
    if (!point.ok()) {
      REQUIRE(limit != 0);
      REQUIRE(point.code() == TN_NO_MEMORY);
      CHECK_HAS(std::string(point.message()), std::to_string(limit));
    }
    last = i;
  }
  const std::vector<uint64_t> expected{last};
  std::vector<uint64_t> out(1);
  must(stream.download(out, buffer));
  must(stream.sync());
  CHECK((out == expected));
}

TEST_CASE("streams: there are as many as the device says, and one that ends makes room") {
  Runtime runtime = open();
  Device device = target(runtime);
  const uint32_t limit = device.limits().max_streams;
  if (limit == 0) TENON_SKIP("max_streams", device_under_test().label() + " has no limit of streams");
  std::vector<Stream> streams;
  for (uint32_t i = 0; i < limit; ++i) streams.push_back(must(device.stream()));
  const auto more = device.stream();
  CHECK(more.code() == TN_NO_MEMORY);
  CHECK_HAS(std::string(more.message()), std::to_string(limit));
  streams.pop_back();
  CHECK(device.stream().ok());
}

TEST_CASE("streams: one that ends with work in flight finishes it") {
  Runtime runtime = open();
  Device device = target(runtime);
  std::vector<uint8_t> out(1 << 16);
  {
    Stream stream = must(device.stream());
    const Buffer buffer = must(device.allocate(stream, out.size()));
    must(stream.fill(buffer, 5));
    must(stream.download(out, buffer));
  }
  CHECK((out == std::vector<uint8_t>(1 << 16, 5)));
}
