// SPDX-License-Identifier: Apache-2.0
// order_test.cpp: work runs late, in an order that only the seed knows, and never before what it waits for.
#include "support/seed.hpp"
#include "world.hpp"

#include <atomic>
#include <set>

using namespace sim_test;

namespace {

constexpr size_t stream_count = 12;

// Streams that race for one byte: each writes its number, then keeps what it finds. What they keep tells the order.
std::vector<unsigned char> race(const std::string& seed) {
  const World world(Options{{"seed", seed}});
  const Device device = open_device();
  const Memory cell = allocate(device, 1), kept = allocate(device, stream_count);
  std::vector<Stream> streams;
  for (size_t i = 0; i < stream_count; ++i) {
    streams.push_back(make_stream(device));
    fill(streams[i], span(cell, 0, 1), i);
    copy(streams[i], span(kept, i, 1), span(cell, 0, 1));
  }
  for (const Stream& stream : streams) drain(stream);
  return download(streams[0], span(kept, 0, stream_count));
}

// The lengths of the steps that one stream's values take.
std::vector<uint64_t> values(const std::string& seed) {
  const World world(Options{{"seed", seed}});
  const Device device = open_device();
  const Stream stream = make_stream(device);
  const Memory memory = allocate(device, 8);
  std::vector<uint64_t> out;
  for (int i = 0; i < 20; ++i) {
    fill(stream, span(memory, 0, 8), 1);
    out.push_back(record(stream));
  }
  return out;
}

void note(void* flag) { static_cast<std::atomic<bool>*>(flag)->store(true); }
void host_call(tn_stream* stream, std::atomic<bool>& flag) {
  must([&](tn_error* e) { return plugin().stream->host_call(stream, note, &flag, e); });
}

}  // namespace

TEST_CASE("order: the same seed gives the same order") {
  for (const char* seed : {"1", "2", "77"}) CHECK(race(seed) == race(seed));
}

TEST_CASE("order: seeds differ in the order of independent streams") {
  std::set<std::vector<unsigned char>> orders;
  for (int seed = 1; seed <= 10; ++seed) orders.insert(race(std::to_string(seed)));
  CHECK(orders.size() >= 9);
}

TEST_CASE("order: it is not the order in which work was enqueued") {
  std::vector<unsigned char> in_turn(stream_count);
  for (size_t i = 0; i < stream_count; ++i) in_turn[i] = static_cast<unsigned char>(i);
  CHECK(race("1") != in_turn);
}

TEST_CASE("order: declared dependencies hold for every seed") {
  const uint64_t first = tenon::test::seed() % 1'000'000;
  for (uint64_t seed = first; seed < first + 30; ++seed) {
    CAPTURE(seed);
    const World world(Options{{"seed", std::to_string(seed)}});
    const Device device = open_device();
    const Memory cells = allocate(device, stream_count + 1);
    std::vector<Stream> streams;
    for (size_t i = 0; i < stream_count; ++i) streams.push_back(make_stream(device));
    // A chain that is enqueued from its beginning, and demanded from its end.
    fill(streams[0], span(cells, 0, 1), 42);
    for (size_t i = 0; i < stream_count; ++i) {
      if (i > 0) wait(streams[i], streams[i - 1], record(streams[i - 1]));
      copy(streams[i], span(cells, i + 1, 1), span(cells, i, 1));
    }
    CHECK(download(streams.back(), span(cells, stream_count, 1))[0] == 42);
  }
}

TEST_CASE("order: nothing runs until somebody demands it") {
  const World world(Options{});
  const Device device = open_device();
  const Stream stream = make_stream(device), other = make_stream(device);
  std::atomic<bool> ran{false};
  host_call(stream, ran);
  const uint64_t value = record(stream);
  CHECK(try_sync(other, record(other)).ok());  // an empty stream demands nothing
  CHECK(!ran);
  CHECK(try_sync(stream, value).ok());
  CHECK(ran);
}

TEST_CASE("order: work that nobody asks for runs a while later") {
  const World world(Options{{"idle_ms", "1"}});
  const Device device = open_device();
  const Stream stream = make_stream(device);
  std::atomic<bool> ran{false};
  must([&](tn_error* e) {
    return plugin().stream->host_call(
        stream,
        [](void* flag) {
          static_cast<std::atomic<bool>*>(flag)->store(true);
          static_cast<std::atomic<bool>*>(flag)->notify_all();
        },
        &ran, e);
  });
  ran.wait(false);  // the test's deadline is the only one
  CHECK(ran);
}

TEST_CASE("order: who polls makes progress") {
  const World world(Options{});
  const Device device = open_device();
  const Stream stream = make_stream(device);
  const Memory memory = allocate(device, 64);
  for (int i = 0; i < 20; ++i) fill(stream, span(memory, 0, 64), 1);
  const uint64_t value = record(stream);
  while (query(stream) < value) {
  }
  CHECK(try_sync(stream, value, 0).ok());
}

TEST_CASE("order: values increase by steps that no host can guess") {
  const std::vector<uint64_t> one = values("1");
  std::set<uint64_t> steps;
  for (size_t i = 1; i < one.size(); ++i) {
    CHECK(one[i] > one[i - 1]);
    steps.insert(one[i] - one[i - 1]);
  }
  CHECK(steps.size() > 1);
  CHECK(one == values("1"));
  CHECK(one != values("2"));
}

TEST_CASE("order: a download is there when its value is reached, and not when the call returns") {
  const World world(Options{});
  const Device device = open_device();
  const Stream stream = make_stream(device);
  const Memory memory = allocate(device, 64);
  fill(stream, span(memory, 0, 64), 5);
  std::vector<unsigned char> host(64, 1);
  copy(stream, host_span(host.data(), 64), span(memory, 0, 64));
  const uint64_t value = record(stream);
  CHECK(host == std::vector<unsigned char>(64, 1));
  CHECK(try_sync(stream, value).ok());
  CHECK(host == std::vector<unsigned char>(64, 5));
}

TEST_CASE("order: a held stream does not keep others from running") {
  const World world(Options{{"profile", "plain"}});
  const Device device = open_device();
  const Stream promises = make_stream(device), held = make_stream(device), free = make_stream(device);
  const Memory memory = allocate(device, 64);
  uint64_t promised = 0;
  must([&](tn_error* e) { return plugin().stream->promise(promises, &promised, e); });
  wait(held, promises, promised);
  fill(held, span(memory, 0, 1), 1);
  const uint64_t behind = record(held);
  fill(free, span(memory, 1, 1), 2);
  drain(free);
  CHECK(try_sync(held, behind, 1'000'000).code == TN_TIMEOUT);
  must([&](tn_error* e) { return plugin().stream->signal(promises, promised, TN_OK, e); });
  CHECK(try_sync(held, behind).ok());
}

TEST_CASE("order: a stream of one device waits for another's where the profile says so") {
  const World world(Options{{"profile", "plain"}});
  const Device first = open_device(0), second = open_device(1);
  const Stream producer = make_stream(first), consumer = make_stream(second);
  const Memory a = allocate(first, 64), b = allocate(second, 64);
  fill(producer, span(a, 0, 64), 6);
  wait(consumer, producer, record(producer));
  copy(consumer, span(b, 0, 64), span(a, 0, 64));
  CHECK(download(consumer, span(b, 0, 64)) == std::vector<unsigned char>(64, 6));
}
