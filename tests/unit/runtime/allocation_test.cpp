// SPDX-License-Identifier: Apache-2.0
// The hot path allocates nothing and locks nothing: every operator new and every mutex of this program is counted.
#include "plugin/tables.hpp"
#include "runtime/device_state.hpp"
#include "support/counted_locks.hpp"
#include "support/counted_new.hpp"

#include <tenon/fragment.hpp>

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <mutex>
#include <ostream>

using namespace tenon;
using tenon::test::allocations;

namespace {

// A plugin that only counts, so that whatever is allocated the host allocated. `reached` is what its streams reached.
std::atomic<uint64_t> enqueued{0}, reached{0};
std::array<char, 1> handles[4];

template <class T>
T* handle(int which) {
  return reinterpret_cast<T*>(&handles[which]);
}

tn_device_api counting_device() {
  return {.header = {sizeof(tn_device_api), 1, 0},
          .count = [](const tn_plugin*, uint32_t* count, tn_error*) { return *count = 1, TN_OK; },
          .info = [](const tn_plugin*, uint32_t, tn_device_info*, tn_error*) { return TN_OK; },
          .open = [](const tn_plugin*, uint32_t, const tn_device_options*, tn_device** device,
                     tn_error*) { return *device = handle<tn_device>(0), TN_OK; },
          .close = [](tn_device*, tn_error*) { return TN_OK; },
          .limits = [](tn_device*, tn_device_limits*, tn_error*) { return TN_OK; },
          .memory_info = [](tn_device*, tn_memory_info*, tn_error*) { return TN_OK; },
          .alloc = [](tn_device*, uint32_t, uint64_t, uint64_t, tn_memory** memory,
                      tn_error*) { return *memory = handle<tn_memory>(1), TN_OK; },
          .free = [](tn_memory*, tn_error*) { return TN_OK; }};
}

tn_stream_api counting_stream() {
  return {
      .header = {sizeof(tn_stream_api), 1, 0},
      .create = [](tn_device*, const tn_stream_options*, tn_stream** stream,
                   tn_error*) { return *stream = handle<tn_stream>(2), TN_OK; },
      .destroy = [](tn_stream*, uint32_t, tn_error*) { return TN_OK; },
      .copy = [](tn_stream*, const tn_span*, const tn_span*, tn_error*) { return ++enqueued, TN_OK; },
      .fill = [](tn_stream*, const tn_span*, uint64_t, uint32_t, tn_error*) { return ++enqueued, TN_OK; },
      .record = [](tn_stream*, uint32_t, uint64_t* value, tn_error*) { return *value = ++enqueued, TN_OK; },
      .wait = [](tn_stream*, tn_stream*, uint64_t, tn_error*) { return ++enqueued, TN_OK; },
      .query = [](tn_stream*, uint64_t* completed, tn_error*) { return *completed = reached, TN_OK; },
      .sync = [](tn_stream*, uint64_t value, uint64_t,
                 tn_error*) { return value <= reached ? TN_OK : TN_TIMEOUT; }};
}

tn_kernel_api counting_kernel() {
  return {
      .header = {sizeof(tn_kernel_api), 1, 0},
      .supports = [](tn_device*, const tn_fragment*, tn_support*, tn_error*) { return TN_OK; },
      .compile = [](tn_device*, const tn_fragment*, const tn_compile_options*, tn_kernel** kernel,
                    tn_error*) { return *kernel = handle<tn_kernel>(3), TN_OK; },
      .info = [](tn_kernel*, tn_kernel_info* info, tn_error*) { return info->workspace_bytes = 4096, TN_OK; },
      .launch = [](tn_kernel*, tn_stream*, const tn_span*, uint32_t, const tn_span*,
                   tn_error*) { return ++enqueued, TN_OK; },
      .destroy = [](tn_kernel*, tn_error*) { return TN_OK; }};
}

struct Counting {
  tn_device_api device_api = counting_device();
  tn_stream_api stream_api = counting_stream();
  tn_kernel_api kernel_api = counting_kernel();
  tn_plugin raw{.header = {sizeof(tn_plugin), 1, 0},
                .name = "counting",
                .vendor = "test",
                .version = "1.0.0",
                .features = 0,
                .context = nullptr,
                .device = &device_api,
                .stream = &stream_api,
                .kernel = &kernel_api};
  std::unique_ptr<plugin::Tables> tables = std::move(*plugin::complete(raw));
  Device device{*runtime::open_device({.plugin = &tables->descriptor, .name = "counting:0"})};
  Stream stream = *device.stream(), other = *device.stream();
};

struct Cost {
  uint64_t allocations, locks;
  friend bool operator==(const Cost&, const Cost&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Cost& cost) {
    return out << cost.allocations << " allocations, " << cost.locks << " locks";
  }
};
constexpr Cost nothing{0, 0};

// What `body` allocates and locks when it runs `count` times, after a warm-up of as many.
template <class Body>
Cost cost_of(Body body, int count = 1000) {
  for (int i = 0; i < count; ++i) body();
  const Cost before{allocations, test::own_locks};
  for (int i = 0; i < count; ++i) body();
  return {allocations - before.allocations, test::own_locks - before.locks};
}

}  // namespace

TEST_CASE("allocations: launch allocates and locks nothing") {
  Counting counting;
  FragmentBuilder builder;
  const auto x = builder.input({f32, {8}});
  builder.output(builder.node(Op::relu, {x}, {f32, {8}}));
  const Kernel kernel = *counting.device.compile(*builder.build());
  const Buffer in = *counting.device.allocate(counting.stream, 32),
               out = *counting.device.allocate(counting.stream, 32);
  const std::array<tn_span, 2> bindings{in, out};
  CHECK(cost_of([&] { REQUIRE(kernel.launch(counting.stream, bindings).ok()); }) == nothing);
  CHECK(cost_of([&] { REQUIRE(kernel.run(counting.stream, {in, out}).ok()); }) == nothing);
}

TEST_CASE("allocations: record allocates and locks nothing") {
  Counting counting;
  CHECK(cost_of([&] { REQUIRE(counting.stream.record().ok()); }) == nothing);
  CHECK(cost_of([&] { REQUIRE(counting.stream.record_value().ok()); }) == nothing);
}

TEST_CASE("allocations: a wait allocates and locks nothing, reached or not") {
  Counting counting;
  reached = 0;
  const Point pending = *counting.other.record();
  uint64_t lead = 0;
  const auto wait = [&] {
    const Point point = *counting.other.record();
    reached = ++lead > 100 ? point.value() - 50 : 0;  // some way behind, as in a pipeline
    REQUIRE(counting.stream.wait(point).ok());
  };
  CHECK(cost_of(wait) == nothing);
  reached = UINT64_MAX / 2;
  CHECK(cost_of([&] { REQUIRE(counting.stream.wait(pending).ok()); }) == nothing);
}

TEST_CASE("allocations: sync and reached of a reached point allocate and lock nothing") {
  Counting counting;
  reached = UINT64_MAX / 2;
  CHECK(cost_of([&] { REQUIRE(counting.stream.sync().ok()); }) == nothing);
  CHECK(cost_of([&] { REQUIRE(*counting.stream.record()->reached()); }) == nothing);
}

TEST_CASE("allocations: the pool's own path allocates and locks nothing on the host") {
  Counting counting;
  CHECK(cost_of([&] { REQUIRE(counting.device.allocate(counting.stream, 1000).ok()); }) == nothing);
}

TEST_CASE("allocations: the counters count") {
  // Called by name: a pair of new and delete may be left out by the compiler.
  CHECK(cost_of([] { ::operator delete(::operator new(1)); }) == Cost{1000, 0});
  std::mutex mutex;
  CHECK(cost_of([&] { const std::lock_guard lock(mutex); }) == Cost{0, 1000});
}
