// SPDX-License-Identifier: Apache-2.0
// allocations_test.cpp: once the plan holds, a step allocates nothing: every operator new of a rank's thread is counted.
#include "model.hpp"

#include <doctest/doctest.h>

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
[[gnu::noinline]] void* operator new[](size_t bytes, const std::nothrow_t&) noexcept {
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

using namespace overlap_test;

TEST_CASE("allocations: a step allocates nothing once the plan holds") {
  together(2, [](Rank& r) -> Status {
    GradientSync sync = TN_TRY(GradientSync::create(
        r.device, r.comm, arriving(parameters({100, 2'000, 30'000, 4})),
        {.fuse_grad_max_layers = 1, .nccl_comm_num = 2}, {.warm_up_steps = 1, .target = eager_target()}));
    const auto step = [&]() -> Status {
      TN_TRY(sync.begin(r.stream));
      for (const uint32_t i : {3u, 2u, 1u, 0u}) TN_TRY(sync.ready(i));
      TN_TRY(sync.finish(r.stream));
      return {};
    };
    for (int i = 0; i < 50; ++i) TN_TRY(step());
    TN_TRY(r.stream.sync());
    const uint64_t before = allocations;
    for (int i = 0; i < 50; ++i) TN_TRY(step());
    const uint64_t made = allocations - before;
    TN_TRY(r.stream.sync());
    return expect(made == 0, "50 steps allocated " + std::to_string(made) + " times");
  });
}

TEST_CASE("allocations: nor does one with gradients from elsewhere, or in sharded mode") {
  const Device device = open_cpu();
  for (const bool sharded : {false, true}) {
    together(device, 2, [&](Rank& r) -> Status {
      SyncOptions options{.warm_up_steps = 0, .target = sharded ? eager_shards() : eager_target()};
      GradientSync sync = TN_TRY(GradientSync::create(
          r.device, r.comm, arriving(parameters({100, 2'000, 30'000, 4})),
          {.fuse_grad_max_layers = 2, .nccl_comm_num = 2, .sharded = sharded}, std::move(options)));
      const Buffer own = TN_TRY(r.buffer(32'100 * sizeof(float)));
      TN_TRY(r.stream.fill(own));
      const tn_span large = TN_TRY(own.slice(0, 120'000))
      , small = TN_TRY(own.slice(120'000, 16));
      const auto step = [&]() -> Status {
        TN_TRY(sync.begin(r.stream));
        TN_TRY(sync.bring(3, small));
        TN_TRY(sync.bring(2, large));
        for (const uint32_t i : {1u, 0u}) TN_TRY(sync.ready(i));
        TN_TRY(sync.finish(r.stream));
        if (!sharded) return {};
        TN_TRY(sync.gather(r.stream));
        for (const uint32_t i : {0u, 1u, 2u, 3u}) TN_TRY(sync.await(r.stream, i));
        return {};
      };
      for (int i = 0; i < 50; ++i) TN_TRY(step());
      TN_TRY(r.stream.sync());
      const uint64_t before = allocations;
      for (int i = 0; i < 50; ++i) TN_TRY(step());
      const uint64_t made = allocations - before;
      TN_TRY(r.stream.sync());
      return expect(made == 0, "50 steps allocated " + std::to_string(made) + " times");
    });
  }
}

TEST_CASE("allocations: the counter counts") {
  const uint64_t before = allocations;
  ::operator delete(
      ::operator new(1));  // called by name: a pair of new and delete may be left out by the compiler
  CHECK(allocations == before + 1);
}
