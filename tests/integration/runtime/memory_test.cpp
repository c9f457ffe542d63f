// SPDX-License-Identifier: Apache-2.0
// memory_test.cpp: the pool over real memory: kinds, reuse in stream order, limits.
#include "integration/device.hpp"

#include "support/full.hpp"
#include "support/seed.hpp"

#include <cstring>
#include <random>

using namespace tenon;
using namespace tenon::test;

namespace {

constexpr uint64_t mib = 1 << 20;

}  // namespace

TEST_CASE("memory: pinned memory is the host's and the device's") {
  Runtime runtime = open();
  Device device = target(runtime);
  Stream stream = must(device.stream());
  const auto pinned = device.allocate(stream, 4096, MemoryKind::host);
  SKIP_IF_UNSUPPORTED(pinned, "memory.host");
  auto* const bytes = reinterpret_cast<uint8_t*>(must(pinned->address()));
  std::memset(bytes, 6, 4096);
  const Buffer buffer = must(device.allocate(stream, 4096));
  must(stream.copy(buffer, *pinned));
  std::vector<uint8_t> out(4096);
  must(stream.download(out, buffer));
  must(stream.sync());
  CHECK((out == std::vector<uint8_t>(4096, 6)));
  must(stream.fill(buffer, 7));
  must(stream.copy(*pinned, buffer));
  must(stream.sync());
  CHECK((std::vector<uint8_t>(bytes, bytes + 4096) == std::vector<uint8_t>(4096, 7)));
}

TEST_CASE("memory: managed memory has one address for both") {
  Runtime runtime = open();
  Device device = target(runtime);
  Stream stream = must(device.stream());
  const auto managed = device.allocate(stream, 4096, MemoryKind::managed);
  SKIP_IF_UNSUPPORTED(managed, "memory.managed");
  must(stream.fill(*managed, 8));
  must(stream.sync());
  const auto* const bytes = reinterpret_cast<const uint8_t*>(must(managed->address()));
  CHECK((std::vector<uint8_t>(bytes, bytes + 4096) == std::vector<uint8_t>(4096, 8)));
}

TEST_CASE("memory: what is dropped with work in flight is reused in the order of its stream") {
  Runtime runtime = open();
  Device device = target(runtime);
  std::mt19937_64 random = generator(41);
  std::vector<Stream> streams;
  for (int i = 0; i < 3; ++i) streams.push_back(must(device.stream()));
  const int rounds = full_or("rounds", 300, 10'000);
  for (int round = 0; round < rounds; ++round) {
    Stream& stream = streams[random() % streams.size()];
    const uint64_t bytes = 256 << (random() % 6);
    std::vector<uint8_t> out(bytes);
    {
      const Buffer buffer = must(device.allocate(stream, bytes));
      must(stream.fill(buffer, static_cast<uint64_t>(round)));
      must(stream.download(out, buffer));
    }
    const Buffer next = must(device.allocate(stream, bytes));  // perhaps the same bytes
    must(stream.fill(next, 0xFF));
    must(stream.sync());
    REQUIRE((out == std::vector<uint8_t>(bytes, static_cast<uint8_t>(round))));
  }
}

TEST_CASE("memory: buffers that travel between streams come back, and the pool does not grow") {
  Runtime runtime = open({}, say_nothing, {{"pool.reserve_fraction", "0.05"}});
  Device device = target(runtime);
  Stream home = must(device.stream()), away = must(device.stream());
  for (int round = 0; round < 400; ++round) {
    CAPTURE(round);
    Buffer buffer = must(device.allocate(home, mib));
    must(home.fill(buffer, 1));
    must(away.wait(must(home.record())));
    must(away.fill(buffer, 2));
    must(buffer.used_on(away));
  }
  const PoolStats stats = device.pool_stats();
  CHECK(stats.used_bytes == 0);
  CHECK(stats.reserved_bytes <= device.info().memory_bytes / 20);
}

TEST_CASE("memory: what does not fit is refused with the figures, and fits once something is dropped") {
  Runtime runtime = open({}, say_nothing, {{"pool.reserve_fraction", "0.02"}});
  Device device = target(runtime);
  Stream stream = must(device.stream({.name = "work"}));
  const uint64_t piece = device.info().memory_bytes / 400;
  std::vector<Buffer> buffers;
  auto more = device.allocate(stream, piece);
  for (; more.ok() && buffers.size() < 100; more = device.allocate(stream, piece))
    buffers.push_back(std::move(more).take());
  REQUIRE(more.code() == TN_NO_MEMORY);
  REQUIRE(!buffers.empty());
  CHECK_HAS(std::string(more.message()), "has no memory for ");
  CHECK_HAS(std::string(more.message()), "on stream 'work'");
  buffers.pop_back();
  CHECK(device.allocate(stream, piece).ok());
}

TEST_CASE("memory: trim gives all of it back") {
  Runtime runtime = open();
  Device device = target(runtime);
  Stream stream = must(device.stream());
  {
    const Buffer one = must(device.allocate(stream, 3 * mib)), other = must(device.allocate(stream, 100));
    must(stream.fill(one, 1));
  }
  must(stream.sync());
  CHECK(device.pool_stats().reserved_bytes > 0);
  must(device.trim());
  CHECK(device.pool_stats().reserved_bytes == 0);
}
