// SPDX-License-Identifier: Apache-2.0
// Copies: what is refused, what is emulated, and what the host carries between devices.
#include "fake_plugin.hpp"

#include <doctest/doctest.h>

#include <array>
#include <numeric>
#include <thread>
#include <vector>

using namespace tenon;
using test::FakePlugin;

namespace {

struct One {
  FakePlugin plugin;
  Device device = plugin.open();
  Stream stream = *device.stream({.name = "s"});
};

std::vector<unsigned char> counting(size_t count) {
  std::vector<unsigned char> bytes(count);
  std::iota(bytes.begin(), bytes.end(), static_cast<unsigned char>(1));
  return bytes;
}

std::vector<unsigned char> contents(Stream& stream, const Buffer& buffer) {
  std::vector<unsigned char> bytes(buffer.bytes());
  REQUIRE(stream.download(std::span(bytes), buffer).ok());
  REQUIRE(stream.sync().ok());
  return bytes;
}

bool says(const Status& status, std::string_view part) {
  return status.message().find(part) != std::string_view::npos;
}

}  // namespace

TEST_CASE("copy: there and back") {
  One one;
  const Buffer buffer = *one.device.allocate(one.stream, 100);
  const auto bytes = counting(100);
  REQUIRE(one.stream.upload(buffer, std::span(bytes)).ok());
  CHECK(contents(one.stream, buffer) == bytes);
}

TEST_CASE("copy: different sizes are refused with both") {
  One one;
  const Buffer a = *one.device.allocate(one.stream, 100), b = *one.device.allocate(one.stream, 60);
  const Status status = one.stream.copy(a, b);
  CHECK(status.code() == TN_INVALID);
  CHECK(status.message() ==
        "copy on stream 's': the source has 60 bytes, the destination 100: make both spans equal");
}

TEST_CASE("copy: overlapping ranges are refused, neighbours are not") {
  One one;
  const Buffer buffer = *one.device.allocate(one.stream, 100);
  const Status status = one.stream.copy(*buffer.slice(10, 20), *buffer.slice(29, 20));
  CHECK(status.code() == TN_INVALID);
  CHECK(says(status, "[29, 49) of one memory overlaps the destination [10, 30)"));
  CHECK(one.stream.copy(*buffer.slice(10, 20), *buffer.slice(30, 20)).ok());
  std::array<char, 8> host{};
  CHECK(one.stream.copy(Stream::host_span(host.data(), 5), Stream::host_span(host.data() + 4, 4)).code() ==
        TN_INVALID);
  CHECK(one.stream.copy(Stream::host_span(host.data(), 5), Stream::host_span(host.data() + 3, 5)).code() ==
        TN_INVALID);
}

TEST_CASE("copy: nothing is legal with any span and calls nobody") {
  One one;
  CHECK(one.stream.copy({}, Stream::host_span(nullptr, 0)).ok());
  CHECK(one.plugin.calls().copy == 0);
}

TEST_CASE("copy: a box is copied natively where the plugin can, row by row where not") {
  for (const bool native : {true, false}) {
    FakePlugin plugin({.strided = native});
    Device device = plugin.open();
    Stream stream = *device.stream();
    const Buffer from = *device.allocate(stream, 64), to = *device.allocate(stream, 64);
    const auto bytes = counting(64);
    REQUIRE(stream.upload(from, std::span(bytes)).ok());
    REQUIRE(stream.fill(to, 0).ok());
    const uint64_t copies = plugin.calls().copy;
    const tn_copy_shape box{sizeof(tn_copy_shape), 2, {3, 5}, {8, 1}, {16, 1}};
    REQUIRE(stream.copy_strided(to, from, box).ok());
    CHECK(plugin.calls().copy - copies == (native ? 0 : 3));
    const auto got = contents(stream, to);
    for (size_t row = 0; row < 3; ++row)
      for (size_t i = 0; i < 8; ++i) CHECK(got[row * 8 + i] == (i < 5 ? bytes[row * 16 + i] : 0));
  }
}

TEST_CASE("copy: a box of four dimensions is copied row by row") {
  One one;
  const Buffer from = *one.device.allocate(one.stream, 2 * 3 * 4 * 5),
               to = *one.device.allocate(one.stream, 2 * 3 * 4 * 5);
  const auto bytes = counting(from.bytes());
  REQUIRE(one.stream.upload(from, std::span(bytes)).ok());
  REQUIRE(one.stream.fill(to, 0).ok());
  const tn_copy_shape transposed{sizeof(tn_copy_shape), 4, {2, 3, 4, 5}, {60, 5, 15, 1}, {60, 20, 5, 1}};
  REQUIRE(one.stream.copy_strided(to, from, transposed).ok());
  const auto got = contents(one.stream, to);
  for (size_t a = 0; a < 2; ++a)
    for (size_t b = 0; b < 3; ++b)
      for (size_t c = 0; c < 4; ++c)
        for (size_t d = 0; d < 5; ++d)
          REQUIRE(got[a * 60 + b * 5 + c * 15 + d] == bytes[a * 60 + b * 20 + c * 5 + d]);
}

TEST_CASE("copy: a box that does not fit, has a wrong rank or a gap in its rows is refused") {
  One one;
  const Buffer from = *one.device.allocate(one.stream, 64), to = *one.device.allocate(one.stream, 32);
  tn_copy_shape box{sizeof(tn_copy_shape), 2, {4, 5}, {10, 1}, {16, 1}};
  CHECK(says(one.stream.copy_strided(to, from, box), "takes 35 bytes of a destination of 32"));
  box.dst_stride[0] = 9;
  CHECK(one.stream.copy_strided(to, from, box).ok());
  box.src_stride[0] = 20;
  CHECK(says(one.stream.copy_strided(to, from, box), "takes 65 bytes of a source of 64"));
  box.src_stride[1] = 2;
  CHECK(says(one.stream.copy_strided(to, from, box), "strides must be 1"));
  box.rank = 5;
  CHECK(says(one.stream.copy_strided(to, from, box), "rank 5 is not 1 to 4"));
  box.rank = 0;
  CHECK(one.stream.copy_strided(to, from, box).code() == TN_INVALID);
}

TEST_CASE("copy: an empty box is legal") {
  One one;
  const tn_copy_shape box{sizeof(tn_copy_shape), 2, {0, 5}, {10, 1}, {16, 1}};
  CHECK(one.stream.copy_strided({}, {}, box).ok());
  CHECK(one.plugin.calls().copy_strided == 0);
}

TEST_CASE("copy: between plugins the host carries the bytes, in the stream's order") {
  FakePlugin here, there({.name = "other"});
  Device device = here.open(), far_device = there.open();
  Stream stream = *device.stream(), far_stream = *far_device.stream();
  const size_t bytes = (9u << 20) + 123;  // several pieces
  const Buffer near_buffer = *device.allocate(stream, bytes),
               far_buffer = *far_device.allocate(far_stream, bytes);
  const auto data = counting(bytes);
  REQUIRE(far_stream.upload(far_buffer, std::span(data)).ok());
  REQUIRE(stream.wait(*far_stream.record()).ok());
  REQUIRE(stream.copy(near_buffer, far_buffer).ok());
  CHECK(contents(stream, near_buffer) == data);

  const Buffer back = *far_device.allocate(far_stream, bytes);
  REQUIRE(stream.copy(back, near_buffer).ok());
  CHECK(contents(far_stream, back) == data);
}

TEST_CASE("copy: a carried copy waits for the stream's earlier work") {
  FakePlugin here, there({.name = "other"});
  Device device = here.open(), far_device = there.open();
  Stream stream = *device.stream(), far_stream = *far_device.stream();
  const Buffer near_buffer = *device.allocate(stream, 16), far_buffer = *far_device.allocate(far_stream, 16);
  FakePlugin::hold(far_stream);
  REQUIRE(far_stream.fill(far_buffer, 7).ok());
  REQUIRE(stream.wait(*far_stream.record()).ok());
  REQUIRE(stream.host_call([&] {}).ok());
  // The copy blocks until the far stream moves; a host call on a third stream moves it.
  std::thread mover([&] { FakePlugin::release(far_stream); });
  REQUIRE(stream.copy(near_buffer, far_buffer).ok());
  mover.join();
  CHECK(contents(stream, near_buffer) == std::vector<unsigned char>(16, 7));
}

TEST_CASE("copy: devices of one plugin that are peers copy directly") {
  for (const bool peers : {true, false}) {
    FakePlugin plugin({.peers = peers});
    Device one = plugin.open(0), two = plugin.open(1);
    Stream a = *one.stream(), b = *two.stream();
    const Buffer from = *one.allocate(a, 32), to = *two.allocate(b, 32);
    const auto data = counting(32);
    REQUIRE(a.upload(from, std::span(data)).ok());
    REQUIRE(a.sync().ok());
    const uint64_t copies = plugin.calls().copy;
    REQUIRE(b.copy(to, from).ok());
    CHECK(plugin.calls().copy - copies == (peers ? 1 : 2));
    CHECK(contents(b, to) == data);
  }
}

TEST_CASE("copy: host memory of another plugin is reached by its address") {
  FakePlugin here, there({.name = "other", .features = TN_FEATURE_HOST_MEMORY | TN_FEATURE_ADDRESSABLE});
  Device device = here.open(), far_device = there.open();
  Stream stream = *device.stream(), far_stream = *far_device.stream();
  const Buffer near_buffer = *device.allocate(stream, 32), far_buffer = *far_device.allocate(far_stream, 32);
  const auto data = counting(32);
  REQUIRE(far_stream.upload(far_buffer, std::span(data)).ok());
  REQUIRE(far_stream.sync().ok());
  const uint64_t far_copies = there.calls().copy;
  REQUIRE(stream.copy(near_buffer, far_buffer).ok());
  CHECK(there.calls().copy == far_copies);
  CHECK(contents(stream, near_buffer) == data);
}

TEST_CASE("copy: a box between plugins is carried row by row") {
  FakePlugin here, there({.name = "other"});
  Device device = here.open(), far_device = there.open();
  Stream stream = *device.stream(), far_stream = *far_device.stream();
  const Buffer to = *device.allocate(stream, 64), from = *far_device.allocate(far_stream, 64);
  const auto data = counting(64);
  REQUIRE(far_stream.upload(from, std::span(data)).ok());
  REQUIRE(far_stream.sync().ok());
  REQUIRE(stream.fill(to, 0).ok());
  const tn_copy_shape box{sizeof(tn_copy_shape), 2, {4, 8}, {8, 1}, {16, 1}};
  REQUIRE(stream.copy_strided(to, from, box).ok());
  const auto got = contents(stream, to);
  for (size_t row = 0; row < 4; ++row)
    for (size_t i = 0; i < 8; ++i) CHECK(got[row * 8 + i] == data[row * 16 + i]);
}
