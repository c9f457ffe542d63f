// SPDX-License-Identifier: Apache-2.0
// captured_memory_test.cpp: what captured work allocates stays its own for as long as it may be replayed, and not longer.
#include "integration/device.hpp"

#include <algorithm>
#include <array>
#include <atomic>

using namespace tenon;
using namespace tenon::test;

namespace {

// Leaves the case, visibly, on a device without captures.
#define NEEDS_CAPTURES(device) \
  if (!Capture::offered(device)) TENON_SKIP("captures", device_under_test().label() + " captures nothing")

constexpr uint64_t block_bytes = 96 << 10;

struct World {
  Runtime runtime = open();
  Device device = target(runtime);
  Stream stream = must(device.stream()), other = must(device.stream());
  Buffer from = must(device.allocate(stream, block_bytes)), to = must(device.allocate(stream, block_bytes));

  // from → a buffer of the work's own → to
  Capture over_own(uint64_t bytes = block_bytes) {
    return must(Capture::of(stream, [&]() -> Status {
      const Buffer own = TN_TRY(device.allocate(stream, bytes));
      TN_TRY(stream.copy(own, from));
      return stream.copy(to, own);
    }));
  }

  std::vector<Buffer> filled(unsigned char value, size_t count = 24) {
    std::vector<Buffer> out;
    for (size_t i = 0; i < count; ++i) {
      out.push_back(must(device.allocate(stream, block_bytes)));
      must(stream.fill(out.back(), value));
    }
    return out;
  }

  // Whether all bytes are `value`.
  bool holds(const Buffer& buffer, unsigned char value) {
    std::vector<unsigned char> found(block_bytes);
    must(stream.download(found, buffer));
    must(stream.sync());
    return found == std::vector<unsigned char>(block_bytes, value);
  }
};

bool same_place(const tn_span& a, const tn_span& b) { return a.memory == b.memory && a.offset == b.offset; }

}  // namespace

TEST_CASE("captured memory: what the work drops nobody else gets while it may be replayed") {
  World w;
  NEEDS_CAPTURES(w.device);
  const Capture capture = w.over_own();
  const std::vector<Buffer> others = w.filled(1);
  must(w.stream.fill(w.from, 7));
  must(capture.replay(w.stream));
  for (const Buffer& other : others) CHECK(w.holds(other, 1));
  CHECK(w.holds(w.to, 7));
}

TEST_CASE("captured memory: the work has it again in its own order") {
  World w;
  NEEDS_CAPTURES(w.device);
  std::array<tn_span, 2> places{};
  const Capture capture = must(Capture::of(w.stream, [&]() -> Status {
    for (tn_span& place : places) {
      const Buffer own = TN_TRY(w.device.allocate(w.stream, block_bytes));
      place = own.span();
      TN_TRY(w.stream.copy(own, w.from));
      TN_TRY(w.stream.copy(w.to, own));
    }
    return {};
  }));
  CHECK(same_place(places[0], places[1]));
  const Buffer after = must(w.device.allocate(w.stream, block_bytes));
  CHECK_FALSE(same_place(after.span(), places[0]));
}

TEST_CASE("captured memory: a buffer may outlive the work, and the capture") {
  World w;
  NEEDS_CAPTURES(w.device);
  Buffer kept;
  {
    const Capture capture = must(Capture::of(w.stream, [&]() -> Status {
      kept = TN_TRY(w.device.allocate(w.stream, block_bytes));
      return w.stream.copy(kept, w.from);
    }));
    must(w.stream.fill(w.from, 5));
    must(capture.replay(w.stream));
    CHECK(w.holds(kept, 5));
  }
  const std::vector<Buffer> others = w.filled(2);
  CHECK(w.holds(kept, 5));
  must(w.stream.fill(kept, 6));
  CHECK(w.holds(kept, 6));
  for (const Buffer& other : others) CHECK(w.holds(other, 2));
}

TEST_CASE("captured memory: it goes back with the capture, to its last byte") {
  World w;
  NEEDS_CAPTURES(w.device);
  constexpr uint64_t large = 4 << 20;  // has a segment of its own
  w.from = must(w.device.allocate(w.stream, large));
  w.to = must(w.device.allocate(w.stream, large));
  must(w.stream.sync());
  must(w.device.trim());
  const PoolStats before = w.device.pool_stats();
  {
    const Capture first = w.over_own(large), second = w.over_own(large);
    must(first.replay(w.stream));
    must(second.replay(w.other));
    must(w.stream.sync());
    must(w.other.sync());
    must(w.device.trim());
    const PoolStats stats = w.device.pool_stats();
    CHECK(stats.used_bytes == before.used_bytes);
    CHECK(stats.reserved_bytes >= before.reserved_bytes + 2 * large);
  }
  must(w.stream.sync());
  must(w.other.sync());
  w.from = Buffer();
  w.to = Buffer();
  must(w.stream.sync());
  must(w.device.trim());
  const PoolStats stats = w.device.pool_stats();
  CHECK(stats.used_bytes == 0);
  CHECK(stats.reserved_bytes == 0);
}

TEST_CASE("captured memory: others get it behind the last replay only") {
  World w;
  NEEDS_CAPTURES(w.device);
  std::atomic<bool> open{false};
  tn_span place{};
  {
    const Capture capture = must(Capture::of(w.stream, [&]() -> Status {
      const Buffer own = TN_TRY(w.device.allocate(w.stream, block_bytes));
      place = own.span();
      return w.stream.copy(own, w.from);
    }));
    must(w.stream.fill(w.from, 9));
    must(w.other.wait(must(w.stream.record())));
    must(w.other.host_call([&] { open.wait(false); }));
    must(capture.replay(w.other));
  }
  const std::vector<Buffer> early = w.filled(3);
  for (const Buffer& buffer : early) CHECK_FALSE(same_place(buffer.span(), place));
  open = true;
  open.notify_all();
  must(w.other.sync());
  for (const Buffer& buffer : early) CHECK(w.holds(buffer, 3));
  // Now it is anyone's.
  const std::vector<Buffer> late = w.filled(4, 64);
  CHECK(std::any_of(late.begin(), late.end(),
                    [&](const Buffer& buffer) { return same_place(buffer.span(), place); }));
}

TEST_CASE("captured memory: work that fails keeps nothing") {
  World w;
  NEEDS_CAPTURES(w.device);
  const auto failed = Capture::of(w.stream, [&]() -> Status {
    const Buffer own = TN_TRY(w.device.allocate(w.stream, block_bytes));
    TN_TRY(w.stream.copy(own, w.from));
    return Status(TN_NOT_FOUND, "no more");
  });
  CHECK(failed.code() == TN_NOT_FOUND);
  w.from = Buffer();
  w.to = Buffer();
  must(w.stream.sync());
  must(w.device.trim());
  CHECK(w.device.pool_stats().reserved_bytes == 0);
}
