// SPDX-License-Identifier: Apache-2.0
// The pool's figures, its limits, and how it gives memory back to the device.
#include "fake_plugin.hpp"

#include <doctest/doctest.h>

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

bool says(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

}  // namespace

TEST_CASE("pool: kinds of memory have pools of their own") {
  Two two({.managed = true});
  const Buffer device_memory = *two.device.allocate(two.a, 100);
  const Buffer host_memory = *two.device.allocate(two.a, 200, MemoryKind::host);
  const Buffer managed_memory = *two.device.allocate(two.a, 300, MemoryKind::managed);
  CHECK(two.plugin.calls().alloc == 3);
  CHECK(two.device.pool_stats().used_bytes == 100);
  CHECK(two.device.pool_stats(MemoryKind::host).used_bytes == 200);
  CHECK(two.device.pool_stats(MemoryKind::managed).used_bytes == 300);
}

TEST_CASE("pool: the reserve fraction caps what is taken of the device") {
  Two two({.memory_bytes = 16 * page}, 0.25);
  std::vector<Buffer> buffers;
  for (int i = 0; i < 4; ++i) buffers.push_back(*two.device.allocate(two.a, page));
  const auto more = two.device.allocate(two.a, page);
  REQUIRE(more.code() == TN_NO_MEMORY);
  CHECK(says(more.message(), "the pool may reserve 8.00 MiB (pool.reserve_fraction)"));
  CHECK(two.device.pool_stats().reserved_bytes == 4 * page);
  CHECK(two.device.allocate(two.a, 8 * page, MemoryKind::host).ok());
}

TEST_CASE("pool: trim gives free segments back until few enough stay") {
  Two two;
  {
    std::vector<Buffer> buffers;
    for (int i = 0; i < 6; ++i) buffers.push_back(*two.device.allocate(two.a, page));
  }
  CHECK(two.plugin.used_bytes() == 6 * page);
  REQUIRE(two.device.trim(2 * page).ok());
  CHECK(two.plugin.used_bytes() == 2 * page);
  const Buffer kept = *two.device.allocate(two.a, page);
  REQUIRE(two.device.trim().ok());
  CHECK(two.plugin.used_bytes() == page);
  CHECK(two.device.pool_stats().trims == 2);
  CHECK(two.device.pool_stats().reserved_bytes == page);
}

TEST_CASE("pool: trim leaves what work in flight may touch") {
  Two two;
  FakePlugin::hold(two.a);
  {
    const Buffer buffer = *two.device.allocate(two.a, page);
    REQUIRE(two.a.fill(buffer, 1).ok());
  }
  const Point point = *two.a.record();
  REQUIRE(two.device.trim().ok());
  CHECK(two.plugin.used_bytes() == page);
  // A trim between steps only looks: a sync that is refused makes words that nobody reads.
  CHECK(two.plugin.calls().sync == 0);
  FakePlugin::release(two.a);
  REQUIRE(two.device.trim().ok());
  CHECK(two.plugin.used_bytes() == 0);
  CHECK(two.plugin.used_after_free() == 0);
}

TEST_CASE("pool: figures tell what is used, reserved, and at most was") {
  Two two;
  {
    const Buffer one = *two.device.allocate(two.a, 1000), other = *two.device.allocate(two.a, 2000);
    const PoolStats stats = two.device.pool_stats();
    CHECK(stats.used_bytes == 3000);
    CHECK(stats.rounded_bytes == 1024 + 2048);
    CHECK(stats.reserved_bytes == page);
    CHECK(stats.largest_free_bytes == page - 1024 - 2048);
    CHECK(stats.fragmentation == 0);
    CHECK(stats.allocations == 2);
    CHECK(stats.device_allocations == 1);
  }
  const Buffer small = *two.device.allocate(two.a, 10);
  const PoolStats stats = two.device.pool_stats();
  CHECK(stats.used_bytes == 10);
  CHECK(stats.peak_used_bytes == 3000);
  CHECK(stats.peak_reserved_bytes == page);
}

TEST_CASE("pool: the peak of one stream is exact, that of several between the truth and their sum") {
  Two two;
  *two.device.allocate(two.a, 1000);
  *two.device.allocate(two.b, 500);
  const uint64_t peak = two.device.pool_stats().peak_used_bytes;
  CHECK(peak >= 1000);
  CHECK(peak <= 1500);
  const Buffer one = *two.device.allocate(two.a, 1000), other = *two.device.allocate(two.b, 600);
  CHECK(two.device.pool_stats().peak_used_bytes == 1600);
}

TEST_CASE("pool: fragmentation is the free share outside the largest piece") {
  Two two;
  std::vector<Buffer> quarters;
  for (int i = 0; i < 4; ++i) quarters.push_back(*two.device.allocate(two.a, page / 4));
  CHECK(two.device.pool_stats().fragmentation == 0);
  quarters[0] = Buffer();
  quarters[2] = Buffer();
  PoolStats stats = two.device.pool_stats();
  CHECK(stats.largest_free_bytes == page / 4);
  CHECK(stats.fragmentation == doctest::Approx(0.5));
  quarters[1] = Buffer();
  stats = two.device.pool_stats();
  CHECK(stats.largest_free_bytes == 3 * page / 4);
  CHECK(stats.fragmentation == 0);
}

TEST_CASE("pool: neighbours join, so a large request fits where small ones were") {
  Two two({.memory_bytes = page});
  {
    std::vector<Buffer> pieces;
    for (int i = 0; i < 16; ++i) pieces.push_back(*two.device.allocate(two.a, page / 16));
  }
  CHECK(two.device.allocate(two.a, page).ok());
}

TEST_CASE("pool: past 32 MiB sizes are rounded to pages only, and reuse fits") {
  Two two;
  {
    const Buffer big = *two.device.allocate(two.a, 33 * page + 1);
    CHECK(two.device.pool_stats().rounded_bytes == 34 * page);
  }
  const Buffer less = *two.device.allocate(two.a, 32 * page + 1);
  CHECK(two.plugin.calls().alloc == 1);
  const Buffer more = *two.device.allocate(two.a, 33 * page + 1);
  CHECK(two.plugin.calls().alloc == 2);
}

TEST_CASE("pool: a buffer that is moved over releases what it held") {
  Two two;
  Buffer buffer = *two.device.allocate(two.a, 100);
  for (int i = 0; i < 5; ++i) buffer = *two.device.allocate(two.a, 100);
  CHECK(two.device.pool_stats().used_bytes == 100);
}
