// SPDX-License-Identifier: Apache-2.0
// faults_test.cpp: what goes wrong between ranks that are threads: every rank hears of it, by name, in time.
//
// Invariant: a fault is made at a place in the order of operations, never at a moment of time.
#include "detection.hpp"
#include "ranks.hpp"

#include <tenon/plugin.h>

#include <doctest/doctest.h>

#include <chrono>
#include <cstdio>

using namespace comm_test;

namespace {

using Clock = std::chrono::steady_clock;
constexpr Timeout patience = std::chrono::seconds(2);

struct World {
  World() {
    Result<Runtime> opened = comm_test::runtime();
    REQUIRE_MESSAGE(opened.ok(), opened.message());
    tenon = *opened;
    Result<Device> found = tenon.device("cpu");
    REQUIRE_MESSAGE(found.ok(), found.message());
    device = *found;
  }
  Runtime tenon;
  Device device;
  Store store = Store::in_process();
};

// Every rank fails with `code`, in words that hold `part`.
void check_all(const std::vector<Status>& outcomes, int32_t code, const std::string& part) {
  for (const Status& outcome : outcomes) {
    CHECK_MESSAGE(outcome.code() == code, outcome.message());
    CHECK_MESSAGE(outcome.message().find(part) != std::string_view::npos, outcome.message());
  }
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

TEST_CASE(
    "faults: another count, dtype, kind or number of operations is TN_MISMATCH on all ranks, naming both "
    "sides") {
  struct Case {
    std::function<Status(Rank&, uint64_t)> odd;
    std::string said;
  };
  // A few bytes lie beside a step, more on a board, much where it is; the odd one may lie elsewhere than the others'.
  for (const uint64_t count : {3u, 4u, 16u, 5'000u}) {
    const std::string same = std::to_string(count), more = std::to_string(count + 1);
    const Case cases[] = {
        {[](Rank& r, uint64_t n) { return sum(r, n + 1); }, "all_reduce sum f32 × " + more},
        {[](Rank& r, uint64_t) { return sum(r, 2); }, "all_reduce sum f32 × 2"},
        {[](Rank& r, uint64_t n) { return sum(r, n, i32); }, "all_reduce sum i32 × " + same},
        {[](Rank& r, uint64_t) -> Status {
           TN_TRY(r.comm.barrier(r.stream));
           return r.stream.sync();
         },
         "has barrier"},
        {[](Rank& r, uint64_t n) -> Status {
           const Buffer data = TN_TRY(r.uploaded(brought(f32, 1, r.rank, n)));
           TN_TRY(r.comm.submit(r.stream, {CommOp::all_reduce(data, data, f32), CommOp::barrier()}));
           return r.stream.sync();
         },
         "2 collectives"},
    };
    for (const Case& wrong : cases) {
      World world;
      const auto start = Clock::now();
      const auto outcomes = as_threads(3, [&](uint32_t rank) -> Status {
        Rank r = TN_TRY(join(world.device, world.store, rank, 3, {.timeout = patience}));
        TN_TRY(sum(r, count));  // what lies there of the group before is not taken for this one's
        return rank == 1 ? wrong.odd(r, count) : sum(r, count);
      });
      std::printf("mismatch told in %.3f s\n", seconds_since(start));
      check_all(outcomes, TN_MISMATCH, wrong.said);
      check_all(outcomes, TN_MISMATCH, "rank 1");
    }
  }
}

TEST_CASE("faults: a message of another size is TN_MISMATCH on both sides") {
  World world;
  const auto outcomes = as_threads(2, [&](uint32_t rank) -> Status {
    Rank r = TN_TRY(join(world.device, world.store, rank, 2, {.timeout = patience}));
    const Buffer data = TN_TRY(r.uploaded(brought(f32, 1, 0, 10 + rank)));
    TN_TRY(r.comm.submit(r.stream, {rank == 0 ? CommOp::send(data, f32, 1) : CommOp::recv(data, f32, 0)}));
    return r.stream.sync();
  });
  check_all(outcomes, TN_MISMATCH, "sends 10 elements of f32");
}

TEST_CASE(
    "faults: a rank that does not come is TN_TIMEOUT on the others, by name, and they go on without it") {
  World world;
  std::atomic<int> told{0};
  const auto start = Clock::now();
  const auto outcomes = as_threads(3, [&](uint32_t rank) -> Status {
    Rank r = TN_TRY(join(world.device, world.store, rank, 3, {.timeout = std::chrono::milliseconds(500)}));
    if (rank == 2) {
      while (told < 2) std::this_thread::yield();
      return {};
    }
    const Status late = sum(r, 100'000);
    ++told;
    if (late.code() != TN_TIMEOUT || late.message().find("rank 2") == std::string_view::npos)
      return Status(TN_INTERNAL, "expected a timeout that names rank 2, got: " + std::string(late.message()));
    if (r.comm.health().code() != TN_TIMEOUT) return Status(TN_INTERNAL, "health says nothing of it");
    Rank again = TN_TRY(join(world.device, world.store, rank, 2, {.name = "survivors", .timeout = patience}));
    return sum(again, 100'000);
  });
  std::printf("late rank told in %.3f s of 0.5\n", seconds_since(start));
  for (const Status& outcome : outcomes) CHECK_MESSAGE(outcome.ok(), outcome.message());
}

TEST_CASE("faults: an abort ends work in flight on every rank, and others go on without who aborted") {
  World world;
  Detection abort;
  std::atomic<uint32_t> in{0};
  const auto outcomes = as_threads(3, [&](uint32_t rank) -> Status {
    Rank r = TN_TRY(join(world.device, world.store, rank, 3));
    const Buffer data = TN_TRY(r.buffer(1 << 20));
    if (rank != 2) TN_TRY(r.comm.all_reduce(r.stream, data, data, f32));  // which rank 2 never joins
    ++in;
    while (in < 3) std::this_thread::yield();
    if (rank == 2) {
      abort.begin();
      TN_TRY(r.comm.abort());
      return r.comm.health();
    }
    const Status end = r.stream.sync();
    abort.told();
    Rank again = TN_TRY(join(world.device, world.store, rank, 2, {.name = "survivors", .timeout = patience}));
    TN_TRY(sum(again, 100'000));
    return Status(end.error());
  });
  abort.print("abort");
  check_all(outcomes, TN_ABORTED, "rank 2 aborted");
}

TEST_CASE("faults: a rank that destroys its communicator is lost to those who wait for it") {
  World world;
  Detection gone;
  const auto outcomes = as_threads(3, [&](uint32_t rank) -> Status {
    Rank r = TN_TRY(join(world.device, world.store, rank, 3));
    TN_TRY(r.comm.barrier(r.stream));
    TN_TRY(r.stream.sync());
    if (rank == 0) {
      gone.begin();
      TN_TRY(r.comm.destroy());
      CHECK(r.comm.barrier(r.stream).code() == TN_INVALID);
      return Status(TN_PEER_LOST, "rank 0 went, destroyed its communicator");
    }
    const Status lost = sum(r, 10);
    gone.told();
    return Status(lost.error());
  });
  gone.print("destroyed communicator");
  check_all(outcomes, TN_PEER_LOST, "destroyed its communicator");
}

TEST_CASE("faults: abort and health find a communicator that another thread destroys whole, or destroyed") {
  World world;
  for (int i = 0; i < 100; ++i) {
    Result<Rank> r = join(world.device, world.store, 0, 1);
    REQUIRE_MESSAGE(r.ok(), r.message());
    std::atomic<bool> asks{false};
    std::thread asking([&] {
      for (Status said; said.code() != TN_INVALID; asks = true)
        said = r->comm.health().ok() ? r->comm.abort() : r->comm.health();
    });
    while (!asks) std::this_thread::yield();
    static_cast<void>(r->comm.destroy());
    asking.join();
    CHECK(r->comm.abort().code() == TN_INVALID);
  }
}

TEST_CASE("faults: ranks that never join are named by those who did") {
  World world;
  const auto outcomes = as_threads(2, [&](uint32_t rank) {
    auto made =
        Communicator::create(world.device, world.store, rank, 4, {.timeout = std::chrono::milliseconds(300)});
    return made.ok() ? Status() : std::move(made).failure();
  });
  check_all(outcomes, TN_TIMEOUT, "missing: 2, 3");
}

TEST_CASE(
    "faults: a store that is lost is told with the communicator, who served it and what to look after") {
  World world;
  Result<Store> served = Store::serve("localhost:0", "secret");
  REQUIRE_MESSAGE(served.ok(), served.message());
  const Result<Store> asking = Store::connect(served->address(), "secret");
  REQUIRE_MESSAGE(asking.ok(), asking.message());
  *served = Store();
  const auto made = Communicator::create(world.device, *asking, 1, 2, {.timeout = patience});
  CHECK(made.code() == TN_PEER_LOST);
  for (const char* part : {"communicator 'world', its creation: the store localhost:",
                           ", which rank 0 or another process serves, is lost (", "): see how that ended"})
    CHECK_MESSAGE(made.message().find(part) != std::string_view::npos, made.message());
}

TEST_CASE("faults: a rank 0 that never joins is named by those who wait for its id") {
  World world;
  const auto outcomes = as_threads(2, [&](uint32_t other) {
    auto made = Communicator::create(world.device, world.store, other + 1, 3,
                                     {.timeout = std::chrono::milliseconds(300)});
    return made.ok() ? Status() : std::move(made).failure();
  });
  check_all(outcomes, TN_TIMEOUT,
            "communicator 'world': rank 0 did not come to its creation within 0.3 s: all ranks");
}

TEST_CASE("faults: ranks that disagree about their number are told so") {
  World world;
  const auto outcomes = as_threads(2, [&](uint32_t rank) {
    auto made = Communicator::create(world.device, world.store, rank, 2 + rank,
                                     {.timeout = std::chrono::milliseconds(300)});
    return made.ok() ? Status() : std::move(made).failure();
  });
  check_all(outcomes, TN_MISMATCH, "of 2");
  check_all(outcomes, TN_MISMATCH, "of 3");
}

TEST_CASE("faults: a group that cannot be is refused alone, and the communicator goes on") {
  World world;
  const auto outcomes = as_threads(2, [&](uint32_t rank) -> Status {
    Rank r = TN_TRY(join(world.device, world.store, rank, 2));
    const Buffer data = TN_TRY(r.uploaded(brought(boolean, 1, rank, 64)));
    const tn_span some = TN_TRY(data.slice(0, 40))
    , others = TN_TRY(data.slice(20, 40));
    const std::pair<CommOp, int32_t> refused[] = {
        {CommOp::all_reduce(data, data, boolean, Reduction::avg), TN_UNSUPPORTED},
        {CommOp::all_reduce(some, others, u8), TN_INVALID},
        {CommOp::all_reduce(data, some, u8), TN_INVALID},
        {CommOp::all_reduce(data, data, i8, Reduction::premul_sum, 0.5), TN_INVALID},
        {CommOp::all_reduce(data, data, u16), TN_UNSUPPORTED},
        {CommOp::broadcast(data, data, u8, 2), TN_INVALID}};
    for (const auto& [op, code] : refused) {
      const Status said = r.comm.submit(r.stream, {op});
      if (said.code() != code)
        return Status(TN_INTERNAL, "not refused as expected: " + std::string(said.message()));
    }
    return sum(r, 10);
  });
  for (const Status& outcome : outcomes) CHECK_MESSAGE(outcome.ok(), outcome.message());
}

TEST_CASE("faults: a creation that does not block says busy, then stands, and can be given up") {
  World world;
  const tn_comm_api& api = *world.device.plugin().comm;
  tn_error error = no_error();
  std::vector<char> id(64);
  uint64_t bytes = 0;
  REQUIRE(api.id_bytes(world.device.handle(), &bytes, &error) == TN_OK);
  id.resize(bytes);
  const auto create = [&](uint32_t rank, tn_comm** out) {
    tn_comm_options options{};
    options.size = sizeof options;
    options.flags = TN_COMM_NON_BLOCKING;
    return api.create(world.device.handle(), rank, 2, id.data(), bytes, &options, out, &error);
  };
  tn_comm *first = nullptr, *second = nullptr;
  REQUIRE(api.make_id(world.device.handle(), id.data(), bytes, &error) == TN_OK);
  REQUIRE(create(0, &first) == TN_OK);
  CHECK(api.health(first, &error) == TN_BUSY);
  SUBCASE("stands") {
    REQUIRE(create(1, &second) == TN_OK);
    while (api.health(first, &error) == TN_BUSY || api.health(second, &error) == TN_BUSY)
      std::this_thread::yield();
    CHECK(api.health(first, &error) == TN_OK);
    CHECK(api.destroy(second, 0, &error) == TN_OK);
  }
  SUBCASE("given up") {
    CHECK(api.abort(first, &error) == TN_OK);
    while (api.health(first, &error) == TN_BUSY) std::this_thread::yield();
    CHECK(api.health(first, &error) == TN_ABORTED);
  }
  CHECK(api.destroy(first, 0, &error) == TN_OK);
}
