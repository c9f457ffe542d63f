// SPDX-License-Identifier: Apache-2.0
// allocations_test.cpp: once streams and names are known, measuring allocates nothing: every operator new of this thread is
// counted.
#include "integration/comm/ranks.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <new>

namespace {

thread_local uint64_t allocations = 0;

void* counted(size_t bytes, size_t alignment) {
  ++allocations;
  const size_t unit = alignment < sizeof(void*) ? sizeof(void*) : alignment;
  void* memory = std::aligned_alloc(unit, (bytes + unit - 1) / unit * unit + (bytes == 0 ? unit : 0));
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

[[gnu::noinline]] void* operator new(size_t bytes) { return counted(bytes, alignof(std::max_align_t)); }
[[gnu::noinline]] void* operator new[](size_t bytes) { return counted(bytes, alignof(std::max_align_t)); }
[[gnu::noinline]] void* operator new(size_t bytes, std::align_val_t align) {
  return counted(bytes, static_cast<size_t>(align));
}
[[gnu::noinline]] void* operator new[](size_t bytes, std::align_val_t align) {
  return counted(bytes, static_cast<size_t>(align));
}
[[gnu::noinline]] void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return counted(bytes, alignof(std::max_align_t));
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, size_t, std::align_val_t) noexcept {
  std::free(memory);
}

using namespace tenon;

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
  const uint64_t before = allocations;
  for (uint64_t i = 0; i < 1000; ++i) step(i);
  const uint64_t made = allocations - before;
  CHECK(well);
  CHECK(made == 0);
  const Trace trace = timeline.take();
  CHECK(trace.events.size() == 512);
  CHECK(trace.dropped == 2000 - 512);
}
