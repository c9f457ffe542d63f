// SPDX-License-Identifier: Apache-2.0
// Kernels: the cache, memoised support, launches and workspaces.
#include "fake_plugin.hpp"

#include <tenon/fragment.hpp>

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

using namespace tenon;
using test::FakePlugin;

namespace {

Fragment relu(int64_t count, const std::string& name = "") {
  FragmentBuilder builder(name);
  const auto x = builder.input({f32, {count}});
  builder.output(builder.node(Op::relu, {x}, {f32, {count}}));
  auto fragment = builder.build();
  REQUIRE_MESSAGE(fragment.ok(), fragment.message());
  return *fragment;
}

struct One {
  explicit One(test::FakeOptions options = {}) : plugin(std::move(options)) {}
  FakePlugin plugin;
  Device device = plugin.open();
  Stream stream = *device.stream({.name = "s"});
};

}  // namespace

TEST_CASE("kernel: an equal fragment is compiled once") {
  One one;
  const Kernel first = *one.device.compile(relu(8, "first")), second = *one.device.compile(relu(8, "second"));
  CHECK(first.state()->handle == second.state()->handle);
  CHECK(one.plugin.calls().compile == 1);
  *one.device.compile(relu(9));
  *one.device.compile(relu(8), {.budget_ms = 5});
  CHECK(one.plugin.calls().compile == 3);
  const KernelCacheStats stats = one.device.kernel_cache_stats();
  CHECK(stats.hits == 1);
  CHECK(stats.misses == 3);
  CHECK(stats.kernels == 3);
}

TEST_CASE("kernel: what nobody has can be forgotten, and what somebody has goes on") {
  One one;
  const Kernel kept = *one.device.compile(relu(8));
  static_cast<void>(*one.device.compile(relu(9)));
  static_cast<void>(*one.device.compile(relu(10)));
  static_cast<void>(*one.device.supports(relu(8)));
  const uint64_t asked = one.plugin.calls().supports;
  const auto live = one.plugin.live();
  CHECK(one.device.forget_kernels() == 2);
  CHECK(one.plugin.live() == live - 2);
  CHECK(one.device.forget_kernels() == 0);
  CHECK(one.device.kernel_cache_stats().kernels == 1);
  const Kernel again = *one.device.compile(relu(8));
  CHECK(again.state()->handle == kept.state()->handle);
  static_cast<void>(*one.device.compile(relu(9)));
  CHECK(one.plugin.calls().compile == 4);
  static_cast<void>(*one.device.supports(relu(8)));
  CHECK(one.plugin.calls().supports == asked + 1);
}

TEST_CASE("kernel: kernels are forgotten while others are compiled and dropped") {
  One one;
  std::atomic<bool> done{false};
  std::thread forgetful([&] {
    while (!done) one.device.forget_kernels();
  });
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 3; ++thread)
    threads.emplace_back([&] {
      for (int i = 0; i < 300; ++i) {
        const auto kernel = one.device.compile(relu(8 + i % 5));
        CHECK((kernel.ok() && kernel->state()->handle != nullptr));
      }
    });
  for (std::thread& thread : threads) thread.join();
  done = true;
  forgetful.join();
  one.device.forget_kernels();
  CHECK(one.device.kernel_cache_stats().kernels == 0);
}

TEST_CASE("kernel: eight threads that want one fragment compile it once") {
  One one;
  const Fragment fragment = relu(8);
  std::atomic<int> waiting{0};
  one.plugin.while_compiling([&] {
    while (waiting < 8) std::this_thread::yield();
  });
  std::array<tn_kernel*, 8> handles{};
  std::vector<std::thread> threads;
  for (size_t i = 0; i < handles.size(); ++i)
    threads.emplace_back([&, i] {
      ++waiting;
      auto kernel = one.device.compile(fragment);
      if (kernel.ok()) handles[i] = kernel->state()->handle;
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(one.plugin.calls().compile == 1);
  for (const tn_kernel* handle : handles) {
    CHECK(handle != nullptr);
    CHECK(handle == handles[0]);
  }
}

TEST_CASE("kernel: a refusal is told with the plugin's reason, and not remembered") {
  One one;
  one.plugin.refuse_fragments("relu of 8 is odd");
  for (int i = 0; i < 2; ++i) {
    const auto kernel = one.device.compile(relu(8));
    REQUIRE(kernel.code() == TN_UNSUPPORTED);
    CHECK(kernel.message() == "relu of 8 is odd");
  }
  CHECK(one.plugin.calls().compile == 2);
  CHECK(one.device.kernel_cache_stats().kernels == 0);
  one.plugin.refuse_fragments("");
  CHECK(one.device.compile(relu(8)).ok());
}

TEST_CASE("kernel: support is asked once for each identity") {
  One one;
  for (int i = 0; i < 5; ++i) {
    const Support support = *one.device.supports(relu(8, std::to_string(i)));
    CHECK(support.verdict == Verdict::native);
    CHECK(support.cost_ns == 5);
  }
  CHECK(one.plugin.calls().supports == 1);
  one.plugin.refuse_fragments("no");
  const Support other = *one.device.supports(relu(9));
  CHECK(other.verdict == Verdict::no);
  CHECK(other.reason == "no");
}

TEST_CASE("kernel: a launch runs in stream order on the spans given") {
  One one;
  const Kernel kernel = *one.device.compile(relu(2));
  const Buffer in = *one.device.allocate(one.stream, 8), out = *one.device.allocate(one.stream, 8);
  REQUIRE(one.stream.fill(in, 5).ok());
  const std::array<tn_span, 2> bindings{in, out};
  FakePlugin::hold(one.stream);
  REQUIRE(kernel.launch(one.stream, bindings).ok());
  std::array<unsigned char, 8> got{};
  REQUIRE(one.stream.download(got, out).ok());
  FakePlugin::release(one.stream);
  CHECK(got[7] == 5);
  CHECK(kernel.engine() == "fake");
  CHECK(kernel.fragment().identity() == relu(2).identity());
  CHECK(kernel.workspace_bytes() == 0);
}

TEST_CASE("kernel: a wrong launch is the plugin's TN_INVALID and poisons nothing") {
  One one;
  const Kernel kernel = *one.device.compile(relu(2));
  CHECK(kernel.launch(one.stream, {}).code() == TN_INVALID);
  CHECK(one.stream.sync().ok());
}

TEST_CASE("kernel: run brings a workspace of the pool, in stream order") {
  One one({.workspace_bytes = 5000});
  const Kernel kernel = *one.device.compile(relu(2));
  CHECK(kernel.workspace_bytes() == 5000);
  const Buffer in = *one.device.allocate(one.stream, 8), out = *one.device.allocate(one.stream, 8);
  FakePlugin::hold(one.stream);
  REQUIRE(kernel.run(one.stream, {in, out}).ok());
  const uint64_t reserved = one.device.pool_stats().reserved_bytes;
  for (int i = 0; i < 100; ++i) REQUIRE(kernel.run(one.stream, {in, out}).ok());
  CHECK(one.device.pool_stats().reserved_bytes == reserved);
  FakePlugin::release(one.stream);
  CHECK(one.stream.sync().ok());
  CHECK(kernel.launch(one.stream, std::array<tn_span, 2>{in, out}).code() == TN_INVALID);
}

TEST_CASE("kernel: a poisoned stream launches nothing") {
  One one;
  const Kernel kernel = *one.device.compile(relu(2));
  const Buffer in = *one.device.allocate(one.stream, 8), out = *one.device.allocate(one.stream, 8);
  FakePlugin::fail_next(one.stream, TN_INTERNAL, "it broke");
  REQUIRE(kernel.launch(one.stream, std::array<tn_span, 2>{in, out}).ok());
  CHECK_FALSE(one.stream.sync().ok());
  CHECK(kernel.launch(one.stream, std::array<tn_span, 2>{in, out}).message() == "it broke");
  CHECK(one.plugin.calls().launch == 1);
}
