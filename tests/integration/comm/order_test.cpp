// SPDX-License-Identifier: Apache-2.0
// order_test.cpp: ranks that never go on are told so by the core, whatever the plugin knows of it; ranks that are slow are not.
//
// Invariant: no timeout ends a case here; all are longer than a case takes.
#include "apart.hpp"
#include "detection.hpp"

#include <doctest/doctest.h>

#include <atomic>

using namespace comm_test;

namespace {

using Clock = std::chrono::steady_clock;

constexpr Timeout limit = std::chrono::seconds(30);
constexpr double promptly = 8;  // of 30, on a busy machine

// Computes for so long.
void compute(double seconds) {
  const auto begin = Clock::now();
  while (std::chrono::duration<double>(Clock::now() - begin).count() < seconds) std::this_thread::yield();
}

Result<Rank> on_cpu(const Store& store, uint32_t rank, uint32_t size, std::string name = "world") {
  static Result<Runtime> opened = comm_test::runtime();
  if (!opened.ok()) return Status(opened.error());
  Device cpu = TN_TRY(opened->device("cpu"));
  return join(cpu, store, rank, size, {.name = std::move(name), .timeout = limit});
}

// All ranks are told TN_MISMATCH, in words that hold all `parts`, within seconds.
void expect_mismatch(const std::vector<Status>& told, const Detection& detection, const char* fault,
                     std::initializer_list<const char*> parts) {
  detection.print(fault);
  CHECK(detection.seconds() < promptly);
  for (const Status& outcome : told) {
    CHECK_MESSAGE(outcome.code() == TN_MISMATCH, outcome.message());
    for (const char* part : parts)
      CHECK_MESSAGE(outcome.message().find(part) != std::string_view::npos, outcome.message());
  }
}

Status all_well(const Status& outcome, const char* who) {
  return outcome.ok() ? Status()
                      : Status(TN_INTERNAL, std::string(who) + ": " + std::string(outcome.message()));
}

}  // namespace

TEST_CASE(
    "order: another count is TN_MISMATCH on all ranks with both sides, where the plugin looks at nothing") {
  PairsOnly world(limit);
  const auto served = Store::serve("127.0.0.1:0", "order");
  REQUIRE_MESSAGE(served.ok(), served.message());
  for (const bool tcp : {false, true}) {
    CAPTURE(tcp);
    Detection detection;
    const auto told = as_threads(4, [&](uint32_t rank) -> Status {
      Store store = world.store;
      if (tcp) store = rank == 0 ? *served : TN_TRY(Store::connect(served->address(), "order"));
      Rank r = TN_TRY(join(world.device, store, rank, 4, {.timeout = limit}));
      const Buffer data = TN_TRY(r.buffer(800));
      TN_TRY(r.comm.broadcast(r.stream, data, f32, 0));
      detection.begin();
      tn_span part = data.span();
      part.bytes = rank == 2 ? 400 : 800;
      TN_TRY(r.comm.all_reduce(r.stream, part, part, f32));
      Status end = r.stream.sync(limit);
      detection.told();
      if (r.comm.health().code() != TN_MISMATCH || r.comm.barrier(r.stream).code() != TN_MISMATCH)
        return Status(TN_INTERNAL, "health and submit say nothing of it");
      return end;
    });
    expect_mismatch(told, detection, tcp ? "another count, over TCP," : "another count",
                    {"communicator 'world': in group 2 of collectives rank ", "all_reduce sum of 200 f32",
                     "rank 2 has all_reduce sum of 100 f32"});
  }
}

TEST_CASE("order: ranks that wait in a circle of three messages are all told the circle") {
  for (const bool checks : {true, false}) {
    CAPTURE(checks);
    PairsOnly world(limit);
    const Store store = Store::in_process();
    Detection detection;
    const auto told = as_threads(3, [&](uint32_t rank) -> Status {
      Rank r = checks ? TN_TRY(on_cpu(store, rank, 3)) : TN_TRY(world.rank(rank, 3));
      const Buffer data = TN_TRY(r.buffer(16));
      if (checks) TN_TRY(r.comm.barrier(r.stream));
      TN_TRY(r.stream.sync());
      detection.begin();
      TN_TRY(r.comm.submit(r.stream, {CommOp::recv(data, f32, (rank + 2) % 3)}));
      Status end = r.stream.sync(limit);
      detection.told();
      return end;
    });
    expect_mismatch(told, detection, "a circle of three",
                    {"rank 0 waits for rank 2 in group ", "rank 1 waits for rank 0 in group ",
                     "rank 2 waits for rank 1 in group ", "(recv of 4 f32 from rank 2)"});
  }
}

TEST_CASE("order: a collective against a message is told, where the plugin looks at nothing") {
  PairsOnly world(limit);
  Detection detection;
  const auto told = as_threads(3, [&](uint32_t rank) -> Status {
    Rank r = TN_TRY(world.rank(rank, 3));
    const Buffer data = TN_TRY(r.buffer(16));
    detection.begin();
    TN_TRY(rank == 1 ? r.comm.submit(r.stream, {CommOp::recv(data, f32, 0)})
                     : r.comm.all_reduce(r.stream, data, data, f32));
    Status end = r.stream.sync(limit);
    detection.told();
    return end;
  });
  expect_mismatch(told, detection, "a collective against a message",
                  {"rank 1 waits for rank 0 in group 1 (recv of 4 f32 from rank 0)",
                   "waits for rank 1 in group 1 (all_reduce sum of 4 f32)"});
}

TEST_CASE("order: two communicators in another order on one stream are told, naming both") {
  const Store store = Store::in_process();
  Detection detection;
  const auto told = as_threads(2, [&](uint32_t rank) -> Status {
    Rank a = TN_TRY(on_cpu(store, rank, 2, "a"));
    Communicator b = TN_TRY(Communicator::create(a.device, store, rank, 2, {.name = "b", .timeout = limit}));
    const Buffer data = TN_TRY(a.buffer(16));
    detection.begin();
    for (const uint32_t turn : {0u, 1u}) {
      Communicator& comm = turn == rank ? a.comm : b;
      const Status went = comm.all_reduce(a.stream, data, data, f32);
      if (!went.ok()) return Status(went.error());
    }
    Status end = a.stream.sync(limit);
    detection.told();
    return end;
  });
  expect_mismatch(told, detection, "two communicators in another order",
                  {"rank 0 waits for rank 1 in group 1 of 'a' (all_reduce sum of 4 f32)",
                   "rank 1 waits for rank 0 in group 1 of 'b' (all_reduce sum of 4 f32)"});
}

TEST_CASE("order: two communicators of which each rank waits for another one are told, naming both") {
  const Store store = Store::in_process();
  Detection detection;
  const auto told = as_threads(2, [&](uint32_t rank) -> Status {
    Rank a = TN_TRY(on_cpu(store, rank, 2, "a"));
    Rank b = TN_TRY(on_cpu(store, rank, 2, "b"));
    detection.begin();
    Rank& first = rank == 0 ? a : b;
    TN_TRY(first.comm.barrier(first.stream));
    Status end = first.stream.sync();
    detection.told();
    return end;
  });
  expect_mismatch(told, detection, "two communicators, one waited for by each,",
                  {"rank 0 waits for rank 1 in group 1 of 'a' (barrier)",
                   "rank 1 waits for rank 0 in group 1 of 'b' (barrier)"});
}

TEST_CASE("order: who computes for three seconds is waited for, on the host or on the stream") {
  for (const bool on_stream : {false, true}) {
    CAPTURE(on_stream);
    const Store store = Store::in_process();
    const auto told = as_threads(3, [&](uint32_t rank) -> Status {
      Rank r = TN_TRY(on_cpu(store, rank, 3));
      const Buffer data = TN_TRY(r.buffer(16));
      TN_TRY(r.comm.barrier(r.stream));
      if (rank == 1 && !on_stream) compute(3);
      if (rank == 1 && on_stream) TN_TRY(r.stream.host_call([] { compute(3); }));
      if (rank == 0) TN_TRY(r.comm.submit(r.stream, {CommOp::recv(data, f32, 1)}));
      if (rank == 1) TN_TRY(r.comm.submit(r.stream, {CommOp::send(data, f32, 0)}));
      TN_TRY(r.comm.all_reduce(r.stream, data, data, f32));
      return r.stream.sync();
    });
    for (const Status& outcome : told) CHECK_MESSAGE(outcome.ok(), outcome.message());
  }
}

TEST_CASE("order: threads with a communicator each wait crosswise, and are all served in the end") {
  const Store store = Store::in_process();
  const auto told = as_threads(2, [&](uint32_t rank) -> Status {
    Status beside;
    std::thread other([&] {
      beside = [&]() -> Status {
        Rank b = TN_TRY(on_cpu(store, rank, 2, "b"));
        if (rank == 0) compute(3);
        TN_TRY(b.comm.barrier(b.stream));
        return b.stream.sync();
      }();
    });
    const Status own = [&]() -> Status {
      Rank a = TN_TRY(on_cpu(store, rank, 2, "a"));
      if (rank == 1) compute(3);
      TN_TRY(a.comm.barrier(a.stream));
      return a.stream.sync();
    }();
    other.join();
    TN_TRY(all_well(own, "a"));
    return all_well(beside, "b");
  });
  for (const Status& outcome : told) CHECK_MESSAGE(outcome.ok(), outcome.message());
}
