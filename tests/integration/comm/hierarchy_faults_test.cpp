// SPDX-License-Identifier: Apache-2.0
// hierarchy_faults_test.cpp: what goes wrong in one part of a hierarchy ends all of it, and names the rank that is the cause.
#include "detection.hpp"
#include "together.hpp"

#include "comm/comm_state.hpp"

#include <atomic>
#include <chrono>
#include <cstdio>

using namespace comm_test;

namespace {

using Clock = std::chrono::steady_clock;

Status sum(Rank& r, Hierarchy& h, Route route, uint64_t count) {
  const Buffer data = TN_TRY(r.uploaded(brought(f32, 1, r.rank, count)));
  const CommOp op = CommOp::all_reduce(data, data, f32);
  TN_TRY(h.submit(r.stream, std::span(&op, 1), route));
  return r.stream.sync();
}

Result<Hierarchy> in_pairs(Rank& r) {
  return Hierarchy::create(r.comm, {.hierarchical_allreduce_inter_nranks = 2, .route = Route::flat});
}

CommOptions patient() { return {.timeout = std::chrono::milliseconds(800)}; }

void check_all(const std::vector<Status>& told, int32_t code, const std::string& part) {
  for (const Status& outcome : told) {
    CHECK_MESSAGE(outcome.code() == code, outcome.message());
    CHECK_MESSAGE(outcome.message().find(part) != std::string_view::npos, outcome.message());
  }
}

}  // namespace

TEST_CASE("hierarchy faults: an abort ends work in flight on every rank of every group, naming who aborted") {
  const Device device = comm_test::open({});
  for (const Route route : {Route::leaders, Route::sharded}) {
    std::atomic<uint32_t> in{0};
    Detection abort;
    const auto told = outcomes(device, {}, 6, [&](Rank& r) -> Status {
      Hierarchy h = TN_TRY(in_pairs(r));
      TN_TRY(sum(r, h, route, 100));
      const Buffer data = TN_TRY(r.buffer(4'000));
      const CommOp op = CommOp::all_reduce(data, data, f32);
      if (r.rank != 3) TN_TRY(h.submit(r.stream, std::span(&op, 1), route));
      ++in;
      while (in < 6) std::this_thread::yield();
      if (r.rank == 3) {
        abort.begin();
        TN_TRY(h.communicator().abort());
        return h.communicator().health();
      }
      Status end = r.stream.sync();
      abort.told();
      if (h.communicator().health().code() != TN_ABORTED)
        return Status(TN_INTERNAL, "health says nothing of it");
      return end;
    });
    abort.print("abort");
    check_all(told, TN_ABORTED, "rank 3 aborted");
  }
}

TEST_CASE("hierarchy faults: a rank that does not come is named to all, not the leader who waits for it") {
  const Device device = comm_test::open({});
  for (const Route route : {Route::leaders, Route::sharded}) {
    std::atomic<uint32_t> told_ranks{0};
    const auto start = Clock::now();
    const auto told = outcomes(device, patient(), 6, [&](Rank& r) -> Status {
      Hierarchy h = TN_TRY(in_pairs(r));
      TN_TRY(sum(r, h, route, 1'000));
      if (r.rank == 5) {
        while (told_ranks < 5 || h.communicator().health().ok()) std::this_thread::yield();
        return h.communicator().health();
      }
      Status end = sum(r, h, route, 1'000);
      ++told_ranks;
      return end;
    });
    std::printf("late rank told in %.3f s of 0.8\n",
                std::chrono::duration<double>(Clock::now() - start).count());
    check_all(told, TN_TIMEOUT, "rank 5 has submitted less than others");
  }
}

TEST_CASE("hierarchy faults: ranks that submit different things are told both sides, also across routes") {
  struct Case {
    uint64_t count;
    Route route;
    const char* said;
  };
  const Device device = comm_test::open({});
  for (const Case& odd : {Case{17, Route::leaders, "17 f32"}, Case{16, Route::flat, "16 f32, flat"},
                          Case{4'000, Route::flat, "4000 f32, flat"}}) {
    Detection difference;
    // Long before the timeout: nothing is late here, and no part of the hierarchy sees anything wrong.
    const auto told = outcomes(device, {.timeout = std::chrono::seconds(60)}, 4, [&](Rank& r) -> Status {
      Hierarchy h = TN_TRY(in_pairs(r));
      TN_TRY(sum(r, h, Route::leaders, 16));
      difference.begin();
      Status end = r.rank == 2 ? sum(r, h, odd.route, odd.count) : sum(r, h, Route::leaders, 16);
      difference.told();
      return end;
    });
    difference.print(odd.said);
    CHECK(difference.seconds() < 20);
    check_all(told, TN_MISMATCH, odd.said);
    check_all(told, TN_MISMATCH, "rank 2");
    check_all(told, TN_MISMATCH, "in group 2 of collectives");
  }
}

TEST_CASE(
    "hierarchy faults: a rank that others wait long for is no difference, whatever was compared before") {
  const Device device = comm_test::open({});
  const Store store = Store::in_process();
  const auto told = as_threads(4, [&](uint32_t rank) -> Status {
    Store asked = store;
    Rank r = TN_TRY(join(device, store, rank, 4, {.timeout = std::chrono::seconds(60)}));
    Hierarchy h = TN_TRY(in_pairs(r));
    for (int group = 1; group <= 2; ++group) {
      // Until the others have waited so long that they have asked.
      const std::string key = r.comm.state()->key + "/hierarchy/0/at/" + std::to_string(group);
      if (rank == 3) TN_TRY(asked.get(key));
      TN_TRY(sum(r, h, group == 1 ? Route::leaders : Route::sharded, 1'000));
    }
    return {};
  });
  for (const Status& outcome : told) CHECK_MESSAGE(outcome.ok(), outcome.message());
}

TEST_CASE("hierarchy faults: a rank that destroys its part is named, and world serves the others no more") {
  const Device device = comm_test::open({});
  Detection gone;
  const auto told = outcomes(device, patient(), 4, [&](Rank& r) -> Status {
    Hierarchy h = TN_TRY(in_pairs(r));
    TN_TRY(sum(r, h, Route::sharded, 1'000));
    if (r.rank == 1) {
      gone.begin();
      TN_TRY(h.communicator().destroy());
      if (h.communicator().health().code() != TN_INVALID) return Status(TN_INTERNAL, "it lives on");
      return Status(TN_PEER_LOST, "rank 1 destroyed the communicator");
    }
    const Status end = sum(r, h, Route::sharded, 1'000);
    gone.told();
    while (r.comm.health().ok()) std::this_thread::yield();
    return Status(end.error());
  });
  gone.print("destroyed part");
  check_all(told, TN_PEER_LOST, "rank 1 destroyed the communicator");
}

TEST_CASE("hierarchy faults: one that ended orderly leaves world as it was, and another can be made") {
  together(World{}, 4, [](Rank& r) -> Status {
    for (int i = 0; i < 3; ++i) {
      Hierarchy h = TN_TRY(in_pairs(r));
      TN_TRY(sum(r, h, Route::leaders, 5'000));
      TN_TRY(r.comm.barrier(r.stream));
      TN_TRY(r.stream.sync());
      if (i != 1) TN_TRY(h.communicator().destroy());
    }
    return perform(r, r.comm, r.stream, {.dtype = f32, .count = 100, .seed = 1});
  });
}

namespace {

// Messages between ranks 0 and 1 that no other rank knows of, and a group that is refused to rank 2 alone.
Status go_astray(Rank& r, Hierarchy& h) {
  const Buffer data = TN_TRY(r.uploaded(brought(f32, 1, r.rank, 100)));
  Communicator& whole = h.communicator();
  for (int i = 0; i < 3; ++i) {
    if (r.rank == 0) TN_TRY(whole.submit(r.stream, {CommOp::send(data, f32, 1)}));
    if (r.rank == 1) TN_TRY(whole.submit(r.stream, {CommOp::recv(data, f32, 0)}));
    if (r.rank == 2 && whole.broadcast(r.stream, data, f32, 9).code() != TN_INVALID)
      return Status(TN_INTERNAL, "a broadcast of rank 9 of 4 was not refused");
    TN_TRY(sum(r, h, Route::leaders, 16));
  }
  return {};
}

}  // namespace

TEST_CASE("hierarchy faults: messages and refusals of some ranks make nobody late and nothing different") {
  const Device device = comm_test::open({});
  for (const uint32_t late : {0u, 3u}) {
    std::atomic<uint32_t> told_ranks{0};
    const auto told = outcomes(device, patient(), 4, [&](Rank& r) -> Status {
      Hierarchy h = TN_TRY(in_pairs(r));
      TN_TRY(go_astray(r, h));
      if (r.rank == late) {
        while (told_ranks < 3 || h.communicator().health().ok()) std::this_thread::yield();
        return h.communicator().health();
      }
      Status end = sum(r, h, Route::leaders, 1'000);
      ++told_ranks;
      return end;
    });
    check_all(told, TN_TIMEOUT, "rank " + std::to_string(late) + " has submitted less than others");
  }
}

TEST_CASE("hierarchy faults: what differs is told both sides also where some ranks exchanged messages") {
  const Device device = comm_test::open({});
  const auto told = outcomes(device, patient(), 4, [&](Rank& r) -> Status {
    Hierarchy h = TN_TRY(in_pairs(r));
    TN_TRY(go_astray(r, h));
    return sum(r, h, Route::leaders, r.rank == 3 ? 17 : 16);
  });
  // Which of the others is named depends on who had submitted the group when it was asked.
  check_all(told, TN_MISMATCH,
            "in group 4 of collectives rank 3 has all_reduce sum of 17 f32, leaders, rank ");
  check_all(told, TN_MISMATCH, " has all_reduce sum of 16 f32, leaders");
}

TEST_CASE("hierarchy faults: a message beside a routed sum that nobody receives is told to all") {
  const Device device = comm_test::open({});
  const auto told = outcomes(device, patient(), 4, [&](Rank& r) -> Status {
    Hierarchy h = TN_TRY(in_pairs(r));
    TN_TRY(sum(r, h, Route::leaders, 16));
    const Buffer data = TN_TRY(r.buffer(1 << 20))
    , message = TN_TRY(r.buffer(1 << 20));
    std::vector<CommOp> group{CommOp::all_reduce(data, data, f32)};
    if (r.rank == 0) group.push_back(CommOp::send(message, f32, 3));
    TN_TRY(h.submit(r.stream, group, Route::leaders));
    const Status end = r.stream.sync();
    while (h.communicator().health().ok()) std::this_thread::yield();
    return end.ok() ? h.communicator().health() : Status(end.error());
  });
  check_all(told, TN_TIMEOUT, "rank 3");
}
