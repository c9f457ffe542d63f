// SPDX-License-Identifier: Apache-2.0
// stream_test.cpp: what a stream of the CPU promises: order, waits, deadlines, promises, poison, times.
//
// Invariant: no test sleeps; a stream is held back by a promise, never by time.
#include "harness.hpp"

#include <atomic>
#include <stdexcept>
#include <thread>

using namespace cpu_test;

namespace {

// A device, and a stream that stands still until `open_gate`.
struct Gated {
  Device device = open_device();
  Stream gate = make_stream(device, "gate");
  Stream stream = make_stream(device, "gated");
  uint64_t key = promise(gate);

  Gated() { wait(stream, gate, key); }
  ~Gated() { (void)signal(gate, key); }
  void open_gate() { REQUIRE(signal(gate, key).ok()); }
};

uint64_t completed(tn_stream* stream) {
  uint64_t value = 0;
  must([&](tn_error* e) { return plugin().stream->query(stream, &value, e); });
  return value;
}

void append(void* argument) {
  auto& [list, item] = *static_cast<std::pair<std::vector<int>*, int>*>(argument);
  list->push_back(item);
}

}  // namespace

TEST_CASE("stream: a timeline starts at 0, which is reached") {
  const Device device = open_device();
  const Stream stream = make_stream(device);
  CHECK(record(stream) == 0);
  CHECK(completed(stream) == 0);
  CHECK(try_sync(stream, 0, 0).ok());
}

TEST_CASE("stream: work runs in order, and values follow it") {
  const Device device = open_device();
  const Stream stream = make_stream(device);
  std::vector<int> order;
  std::vector<std::pair<std::vector<int>*, int>> items;
  for (int i = 0; i < 100; ++i) items.emplace_back(&order, i);
  uint64_t last = 0;
  for (auto& item : items) {
    host_call(stream, append, &item);
    const uint64_t value = record(stream);
    CHECK(value > last);
    last = value;
  }
  CHECK(try_sync(stream, last).ok());
  REQUIRE(order.size() == 100);
  for (int i = 0; i < 100; ++i) CHECK(order[static_cast<size_t>(i)] == i);
}

TEST_CASE("stream: recording twice with nothing between repeats the value") {
  const Device device = open_device();
  const Stream stream = make_stream(device);
  host_call(
      stream, [](void*) {}, nullptr);
  const uint64_t value = record(stream);
  CHECK(record(stream) == value);
}

TEST_CASE("stream: a call returns before its work runs") {
  Gated g;
  std::atomic<int> ran{0};
  host_call(
      g.stream, [](void* p) { static_cast<std::atomic<int>*>(p)->store(1); }, &ran);
  const uint64_t value = record(g.stream);
  CHECK(ran == 0);
  CHECK(completed(g.stream) < value);
  g.open_gate();
  CHECK(try_sync(g.stream, value).ok());
  CHECK(ran == 1);
}

TEST_CASE("stream: a sync that comes too early times out and poisons nothing") {
  Gated g;
  const uint64_t value = record(g.stream);
  const Outcome now = try_sync(g.stream, value, 0), soon = try_sync(g.stream, value, 1'000'000);
  CHECK(now.code == TN_TIMEOUT);
  CHECK(soon.code == TN_TIMEOUT);
  CHECK(soon.says("1000000 ns"));
  g.open_gate();
  CHECK(try_sync(g.stream, value).ok());
}

TEST_CASE("stream: a timeout longer than any clock is no timeout") {
  Gated g;
  const uint64_t value = record(g.stream);
  std::thread opener([&] { g.open_gate(); });
  CHECK(try_sync(g.stream, value, UINT64_MAX - 1).ok());
  opener.join();
}

TEST_CASE("stream: waiting for an unrecorded value is refused with both figures") {
  const Device device = open_device();
  const Stream a = make_stream(device), b = make_stream(device);
  const Outcome sync = try_sync(a, 7);
  CHECK(sync.code == TN_INVALID);
  CHECK(sync.says("value 7"));
  CHECK(outcome_of([&](tn_error* e) { return plugin().stream->wait(b, a, 7, e); }).code == TN_INVALID);
}

TEST_CASE("stream: later work waits for another stream") {
  Gated g;
  const Stream other = make_stream(g.device);
  std::vector<int> order;
  std::pair<std::vector<int>*, int> first{&order, 1}, second{&order, 2};
  host_call(g.stream, append, &first);
  wait(other, g.stream, record(g.stream));
  host_call(other, append, &second);
  const uint64_t value = record(other);
  CHECK(try_sync(other, value, 0).code == TN_TIMEOUT);
  g.open_gate();
  CHECK(try_sync(other, value).ok());
  CHECK(order == std::vector<int>{1, 2});
}

TEST_CASE("stream: a stream may wait for itself, and for a stream that was destroyed later") {
  Gated g;
  wait(g.stream, g.stream, record(g.stream));
  Stream waiter = make_stream(g.device);
  {
    Stream passing = make_stream(g.device);
    wait(passing, g.gate, g.key);
    wait(waiter, passing, record(passing));
    g.open_gate();
  }
  drain(waiter);
}

TEST_CASE("stream: more commands than the queue holds all run") {
  const Device device = open_device();
  const Stream stream = make_stream(device);
  std::atomic<uint64_t> count{0};
  constexpr uint64_t many = 20'000;
  for (uint64_t i = 0; i < many; ++i) {
    host_call(
        stream, [](void* p) { static_cast<std::atomic<uint64_t>*>(p)->fetch_add(1); }, &count);
  }
  drain(stream);
  CHECK(count == many);
}

TEST_CASE("stream: timed values have times that do not decrease, others have none") {
  const Device device = open_device();
  const Stream stream = make_stream(device);
  const uint64_t first = record(stream, TN_RECORD_TIMED);
  host_call(
      stream, [](void*) {}, nullptr);
  const uint64_t plain = record(stream);
  const uint64_t second = record(stream, TN_RECORD_TIMED);
  CHECK(try_sync(stream, second).ok());
  uint64_t a = 0, b = 0, c = 0;
  must([&](tn_error* e) { return plugin().stream->timestamp(stream, first, &a, e); });
  must([&](tn_error* e) { return plugin().stream->timestamp(stream, second, &b, e); });
  CHECK(a > 0);
  CHECK(b >= a);
  const Outcome none =
      outcome_of([&](tn_error* e) { return plugin().stream->timestamp(stream, plain, &c, e); });
  CHECK(none.code == TN_INVALID);
  CHECK(none.says("TN_RECORD_TIMED"));
}

TEST_CASE("stream: a time is asked for only once it is reached") {
  Gated g;
  const uint64_t value = record(g.stream, TN_RECORD_TIMED);
  uint64_t ns = 0;
  const Outcome early =
      outcome_of([&](tn_error* e) { return plugin().stream->timestamp(g.stream, value, &ns, e); });
  CHECK(early.code == TN_INVALID);
  CHECK(early.says("not reached"));
}

TEST_CASE("promise: promises complete in order of value, whatever the order of signals") {
  const Device device = open_device();
  const Stream stream = make_stream(device);
  const uint64_t a = promise(stream), b = promise(stream);
  CHECK(b > a);
  CHECK(signal(stream, b).ok());
  CHECK(completed(stream) < a);
  CHECK(signal(stream, a).ok());
  CHECK(completed(stream) == b);
}

TEST_CASE("promise: a second signal and a signal without a promise are refused") {
  const Device device = open_device();
  const Stream stream = make_stream(device), plain = make_stream(device);
  const uint64_t a = promise(stream), b = promise(stream);
  CHECK(signal(stream, a).ok());
  CHECK(signal(stream, a).code == TN_INVALID);
  CHECK(signal(stream, b + 1).code == TN_INVALID);
  CHECK(signal(plain, 0).code == TN_INVALID);
  CHECK(signal(stream, b).ok());
}

TEST_CASE("promise: a stream of promises carries no other work, and the other way round") {
  const Device device = open_device();
  const Stream stream = make_stream(device), busy = make_stream(device);
  const uint64_t value = promise(stream);
  const auto work = [&](tn_error* e) {
    return plugin().stream->host_call(
        stream, [](void*) {}, nullptr, e);
  };
  CHECK(outcome_of(work).code == TN_INVALID);
  CHECK(signal(stream, value).ok());
  host_call(
      busy, [](void*) {}, nullptr);
  uint64_t unused = 0;
  CHECK(outcome_of([&](tn_error* e) { return plugin().stream->promise(busy, &unused, e); }).code ==
        TN_INVALID);
}

TEST_CASE("promise: a broken promise poisons its stream, and whoever waits goes on") {
  const Device device = open_device();
  const Stream stream = make_stream(device), waiter = make_stream(device);
  const uint64_t good = promise(stream), bad = promise(stream), after = promise(stream);
  wait(waiter, stream, after);
  CHECK(signal(stream, good).ok());
  CHECK(signal(stream, bad, TN_ABORTED).ok());
  drain(waiter);
  CHECK(try_sync(stream, good).ok());
  const Outcome told = try_sync(stream, after);
  CHECK(told.code == TN_ABORTED);
  CHECK((told.error.flags & TN_ERROR_ASYNC) != 0);
  CHECK(signal(stream, after).ok());
}

TEST_CASE("promise: destroying a stream with an unkept promise says so and holds nobody") {
  const Device device = open_device();
  const Stream waiter = make_stream(device);
  Stream stream = make_stream(device);
  wait(waiter, stream, promise(stream));
  const Outcome end = outcome_of(
      [&](tn_error* e) { return plugin().stream->destroy(stream.release(), TN_DESTROY_COMPLETE, e); });
  CHECK(end.code == TN_INVALID);
  CHECK(end.says("never kept"));
  drain(waiter);
}

TEST_CASE("poison: the first failure is kept, flagged ASYNC, and later work is skipped") {
  Gated g;
  std::atomic<int> ran{0};
  host_call(
      g.stream, [](void* p) { static_cast<std::atomic<int>*>(p)->fetch_add(1); }, &ran);
  const uint64_t good = record(g.stream);
  host_call(
      g.stream, [](void*) { throw std::runtime_error("planted failure"); }, nullptr);
  const uint64_t bad = record(g.stream);
  host_call(
      g.stream, [](void* p) { static_cast<std::atomic<int>*>(p)->fetch_add(10); }, &ran);
  const uint64_t later = record(g.stream);
  g.open_gate();
  const Outcome told = try_sync(g.stream, later);
  CHECK(told.code == TN_INTERNAL);
  CHECK(told.says("planted failure"));
  CHECK(told.says("gated"));
  CHECK((told.error.flags & TN_ERROR_ASYNC) != 0);
  CHECK(ran == 1);
  CHECK(try_sync(g.stream, good).ok());
  CHECK(try_sync(g.stream, bad).code == TN_INTERNAL);
  uint64_t value = 0;
  CHECK(outcome_of([&](tn_error* e) {
          return plugin().stream->record(g.stream, 0, &value, e);
        }).says("planted failure"));
  CHECK(outcome_of([&](tn_error* e) {
          return plugin().stream->query(g.stream, &value, e);
        }).says("planted failure"));
  CHECK(outcome_of([&](tn_error* e) {
          return plugin().stream->host_call(
              g.stream, [](void*) {}, nullptr, e);
        }).says("planted failure"));
}

TEST_CASE("poison: waiting for a value that a poisoned stream cannot reach does not hang") {
  Gated g;
  host_call(
      g.stream, [](void*) { throw std::runtime_error("planted failure"); }, nullptr);
  host_call(
      g.stream, [](void*) {}, nullptr);
  const Stream waiter = make_stream(g.device);
  wait(waiter, g.stream, record(g.stream));
  g.open_gate();
  drain(waiter);
}

TEST_CASE("poison: destroy brings a failure that nobody was told of") {
  const Device device = open_device();
  Stream stream = make_stream(device);
  host_call(
      stream, [](void*) { throw std::runtime_error("planted failure"); }, nullptr);
  const Outcome end = outcome_of(
      [&](tn_error* e) { return plugin().stream->destroy(stream.release(), TN_DESTROY_COMPLETE, e); });
  CHECK(end.says("planted failure"));
}

TEST_CASE("destroy: COMPLETE finishes enqueued work") {
  const Device device = open_device();
  std::atomic<int> ran{0};
  {
    const Stream stream = make_stream(device);
    for (int i = 0; i < 500; ++i) {
      host_call(
          stream, [](void* p) { static_cast<std::atomic<int>*>(p)->fetch_add(1); }, &ran);
    }
  }
  CHECK(ran == 500);
}

TEST_CASE("destroy: ABANDON ends a stream that waits for a promise nobody keeps") {
  const Device device = open_device();
  Stream gate = make_stream(device), stream = make_stream(device);
  const uint64_t never = promise(gate);
  wait(stream, gate, never);
  std::atomic<int> ran{0};
  host_call(
      stream, [](void* p) { static_cast<std::atomic<int>*>(p)->fetch_add(1); }, &ran);
  must([&](tn_error* e) { return plugin().stream->destroy(stream.release(), TN_DESTROY_ABANDON, e); });
  CHECK(ran == 0);
  must([&](tn_error* e) { return plugin().stream->destroy(gate.release(), TN_DESTROY_ABANDON, e); });
}

TEST_CASE("quiesce: threads stop and start again") {
  const Device device = open_device();
  const Stream stream = make_stream(device);
  std::atomic<int> ran{0};
  const auto count = [](void* p) { static_cast<std::atomic<int>*>(p)->fetch_add(1); };
  for (int round = 1; round <= 20; ++round) {
    host_call(stream, count, &ran);
    must([&](tn_error* e) { return plugin().quiesce(&plugin(), e); });
    CHECK(ran == round);
  }
  host_call(stream, count, &ran);
  drain(stream);
  CHECK(ran == 21);
}

TEST_CASE("close: a device with a living stream stays open, and says what lives") {
  Device device = open_device();
  const Stream stream = make_stream(device);
  const Outcome refused = outcome_of([&](tn_error* e) { return plugin().device->close(device, e); });
  CHECK(refused.code == TN_BUSY);
  CHECK(refused.says("1 stream"));
}

TEST_CASE("stream: priorities 0 to 2 are taken, 3 is not") {
  const Device device = open_device();
  for (uint32_t priority = 0; priority < 4; ++priority) {
    const tn_stream_options options{
        .size = sizeof options, .priority = priority, .name = nullptr, .next = nullptr};
    tn_stream* stream = nullptr;
    const Outcome made =
        outcome_of([&](tn_error* e) { return plugin().stream->create(device, &options, &stream, e); });
    const Stream owned(stream);
    CHECK(made.code == (priority < 3 ? TN_OK : TN_INVALID));
  }
}
