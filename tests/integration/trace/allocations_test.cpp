// SPDX-License-Identifier: Apache-2.0
// allocations_test.cpp: once streams and names are known, measuring allocates nothing: every operator new of this thread is
// counted.
#include "integration/comm/ranks.hpp"
#include "support/counted_new.hpp"

#include <doctest/doctest.h>

using namespace tenon;
using tenon::test::own_allocations;

TEST_CASE("timeline allocations: measuring allocates nothing once streams and names are known") {
  Result<Runtime> runtime = comm_test::runtime();
  REQUIRE_MESSAGE(runtime.ok(), runtime.message());
  Device device = *runtime->device("cpu");
  Timeline timeline = *Timeline::create(device, {.events = 512});  // fewer than come: old ones make room, too
  Stream stream = *device.stream();
  const Buffer buffer = *device.allocate(stream, 64);
  const char* const names[] = {"a name that is too long to lie inside a string", "fc2"};
  bool well = true;
  const auto step = [&](uint64_t i) {
    well =
        timeline.measure(stream, {.name = names[i % 2]}, [&] { return stream.fill(buffer, i); }).ok() && well;
  };
  for (uint64_t i = 0; i < 1000; ++i) step(i);
  const uint64_t before = own_allocations;
  for (uint64_t i = 0; i < 1000; ++i) step(i);
  const uint64_t made = own_allocations - before;
  CHECK(well);
  CHECK(made == 0);
  const Trace trace = timeline.take();
  CHECK(trace.events.size() == 512);
  CHECK(trace.dropped == 2000 - 512);
}
