// SPDX-License-Identifier: Apache-2.0
// The queue of pending waits: order, reuse of chunks, one producer beside one consumer.
#include "runtime/upstream.hpp"
#include "fake_plugin.hpp"
#include "runtime/timeline.hpp"

#include <doctest/doctest.h>

#include <thread>
#include <vector>

using namespace tenon;
using runtime::Upstream;
using runtime::UpstreamQueue;
using test::FakePlugin;

TEST_CASE("upstream: entries come out in the order they went in") {
  UpstreamQueue queue;
  CHECK(queue.empty());
  CHECK(queue.front() == nullptr);
  uint64_t next = 0;
  for (uint64_t i = 0; i < 1000; ++i) {
    queue.push({nullptr, i, i / 2});
    if (i % 3 != 0) {
      REQUIRE(queue.front()->value == next++);
      queue.pop();
    }
  }
  uint64_t seen = next;
  queue.each([&](const Upstream& entry) {
    CHECK(entry.value == seen++);
    return true;
  });
  CHECK(seen == 1000);
  for (; !queue.empty(); queue.pop()) REQUIRE(queue.front()->value == next++);
  CHECK(next == 1000);
}

TEST_CASE("upstream: one thread pushes while another pops") {
  UpstreamQueue queue;
  constexpr uint64_t count = 100'000;
  std::thread producer([&] {
    for (uint64_t i = 0; i < count; ++i) queue.push({nullptr, i, 0});
  });
  uint64_t next = 0;
  while (next < count) {
    if (const Upstream* entry = queue.front()) {
      REQUIRE(entry->value == next++);
      queue.pop();
    } else {
      std::this_thread::yield();
    }
  }
  producer.join();
  CHECK(queue.empty());
}

TEST_CASE("upstream: a stream that only waits and is never asked forgets what was met") {
  FakePlugin plugin;
  Device device = plugin.open();
  std::vector<Stream> chain;
  for (int i = 0; i < 4; ++i) chain.push_back(*device.stream());
  const Buffer memory = *device.allocate(chain[0], 8);
  // A pipeline of four streams, each some steps behind the first, and nobody ever syncs.
  FakePlugin::hold(chain[0]);
  for (int step = 0; step < 2000; ++step) {
    REQUIRE(chain[0].fill(memory, 1).ok());
    for (size_t i = 1; i < chain.size(); ++i) REQUIRE(chain[i].wait(*chain[i - 1].record()).ok());
    if (step >= 20) FakePlugin::step(chain[0]);
  }
  for (const Stream& stream : chain) {
    uint64_t remembered = 0;
    runtime::timeline_of(stream).upstream.each([&](const Upstream&) { return ++remembered, true; });
    CHECK(remembered < 200);
  }
  FakePlugin::release(chain[0]);
  for (Stream& stream : chain) CHECK(stream.sync().ok());
}
