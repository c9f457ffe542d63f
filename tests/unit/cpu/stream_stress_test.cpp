// SPDX-License-Identifier: Apache-2.0
// stream_stress_test.cpp: many threads, many streams, random waits, and every result known beforehand.
//
// Each operation writes one cell from an earlier cell of its own stream and, after a wait, one of another stream. A wait
// names a value that was recorded before, so waits never form a circle.
// Invariant: a cell is written once, so a wait that does not order its streams is a data race that TSan names, and a wrong
// number in any run.
#include "harness.hpp"

#include <atomic>
#include <random>
#include <thread>

using namespace cpu_test;

namespace {

constexpr size_t thread_count = 8, stream_count = 64;

uint64_t mix(uint64_t a, uint64_t b, uint64_t salt) {
  uint64_t x = a * 0x9E3779B97F4A7C15ull + (b ^ salt);
  x ^= x >> 29;
  return x * 0xBF58476D1CE4E5B9ull;
}

enum class Kind { Call, Copy, Fill };
struct Operation {
  Kind kind = Kind::Call;
  uint64_t* out = nullptr;
  const uint64_t* own = nullptr;
  const uint64_t* other = nullptr;
  uint64_t salt = 0;
};

void run_call(void* argument) {
  const auto& op = *static_cast<const Operation*>(argument);
  *op.out = mix(*op.own, *op.other, op.salt);
}

struct Lane {
  Stream stream;
  Memory memory;  // cells: the first is 0
  uint64_t* cells = nullptr;
  std::vector<Operation> operations;
  std::vector<uint64_t> values;     // of the timeline, after operation i
  std::atomic<size_t> recorded{0};  // entries of `values` that others may read
};

// Enqueues one operation of lane `l`, which reads cell `from` of `other` after waiting for it.
void enqueue(Lane& lane, Lane& other, size_t from, std::mt19937_64& random) {
  const size_t i = lane.recorded.load(std::memory_order_relaxed);
  Operation& op = lane.operations[i];
  op = {.kind = static_cast<Kind>(random() % 3),
        .out = lane.cells + i + 1,
        .own = lane.cells + i,
        .other = other.cells + from,
        .salt = random()};
  if (from > 0) wait(lane.stream, other.stream, other.values[from - 1]);
  const auto at = [](Lane& l, const uint64_t* cell) {
    return span(l.memory, static_cast<uint64_t>(cell - l.cells) * 8, 8);
  };
  switch (op.kind) {
    case Kind::Call:
      host_call(lane.stream, run_call, &op);
      break;
    case Kind::Copy:
      copy(lane.stream, at(lane, op.out), at(other, op.other));
      break;
    case Kind::Fill:
      fill(lane.stream, at(lane, op.out), op.salt, 8);
      break;
  }
  lane.values[i] = record(lane.stream);
  lane.recorded.store(i + 1, std::memory_order_release);
}

uint64_t expected(const Operation& op) {
  return op.kind == Kind::Call   ? mix(*op.own, *op.other, op.salt)
         : op.kind == Kind::Copy ? *op.other
                                 : op.salt;
}

}  // namespace

TEST_CASE("stream: 8 threads and 64 streams with random waits give right results") {
  const auto total = tenon::test::full_or<uint64_t>("operations", 20'000, 1'000'000);
  const uint64_t seed = tenon::test::seed();
  const size_t each = total / stream_count;
  const Device device = open_device();
  std::vector<Lane> lanes(stream_count);
  for (Lane& lane : lanes) {
    lane.stream = make_stream(device);
    lane.memory = allocate(device, (each + 1) * 8);
    lane.cells = reinterpret_cast<uint64_t*>(address(lane.memory));
    lane.cells[0] = 0;
    lane.operations.resize(each);
    lane.values.resize(each);
  }
  std::vector<std::thread> threads;
  for (size_t t = 0; t < thread_count; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(seed + t);
      for (size_t n = 0; n < each * stream_count / thread_count; ++n) {
        Lane& lane = lanes[t + thread_count * (n % (stream_count / thread_count))];
        Lane& other = lanes[random() % stream_count];
        enqueue(lane, other, other.recorded.load(std::memory_order_acquire), random);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (Lane& lane : lanes) drain(lane.stream);
  uint64_t wrong = 0;
  for (const Lane& lane : lanes) {
    for (const Operation& op : lane.operations) wrong += *op.out == expected(op) ? 0 : 1;
  }
  CHECK(wrong == 0);
}

TEST_CASE("stream: any thread may ask and sync while its owner enqueues") {
  const auto total = tenon::test::full_or<uint64_t>("operations", 5'000, 200'000);
  const Device device = open_device();
  const Stream stream = make_stream(device);
  std::atomic<uint64_t> newest{0}, syncs{0};
  std::atomic<bool> over{false};
  std::vector<std::thread> askers;
  for (int i = 0; i < 4; ++i) {
    askers.emplace_back([&] {
      for (uint64_t last = 0; !over.load() || syncs == 0;) {
        const uint64_t value = newest.load();
        uint64_t reached = 0;
        if (!try_sync(stream, value).ok()) return;
        if (plugin().stream->query(stream, &reached, nullptr) != TN_OK || reached < value || reached < last)
          return;
        last = reached;
        syncs.fetch_add(1);
      }
    });
  }
  for (uint64_t i = 0; i < total; ++i) {
    host_call(
        stream, [](void*) {}, nullptr);
    newest.store(record(stream));
  }
  drain(stream);
  over.store(true);
  for (std::thread& asker : askers) asker.join();
  CHECK(syncs > 0);
}
