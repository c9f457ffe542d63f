// SPDX-License-Identifier: Apache-2.0
// hierarchy_processes_test.cpp: a hierarchy over processes: results, and ranks that are killed or stopped.
//
// The one host plays several: each rank says which it takes part in.
// Invariant: no child is left when a case ends.
#include "processes.hpp"
#include "support/seed.hpp"
#include "support/temp_folder.hpp"

#include <chrono>
#include <cstdio>

#include <signal.h>

using namespace comm_test;

namespace {

using Clock = std::chrono::steady_clock;
constexpr uint32_t size = 4;

Result<Hierarchy> in_hosts(Rank& r, std::optional<Route> route) {
  return Hierarchy::create(r.comm, {.group = r.rank < 2 ? "host a" : "host b", .route = route});
}

Status sum(Rank& r, Hierarchy& h, uint64_t count) {
  return perform(r, h.communicator(), r.stream, {.dtype = f32, .count = count, .in_place = true, .seed = 1});
}

// Rank `odd` ends or stops itself between two sums; the others must name it, and go on without it.
Status meet_fault(uint32_t rank, uint32_t odd, const Store& store, Route route, int signal, int32_t code,
                  Timeout timeout) {
  Rank r = TN_TRY(join_here(store, rank, size, {.timeout = timeout}));
  Hierarchy h = TN_TRY(in_hosts(r, route));
  TN_TRY(sum(r, h, 100'000));
  if (rank == odd) {
    raise(signal);
    return {};
  }
  const auto begin = Clock::now();
  const Status lost = sum(r, h, 100'000);
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  std::printf("rank %u was told after %.3f s\n", rank, seconds);
  const std::string name = "rank " + std::to_string(odd) + " gives no sign of life";
  if (lost.code() != code || lost.message().find(name) == std::string_view::npos)
    return Status(TN_INTERNAL, "expected " + std::string(code_name(code)) + " of rank " +
                                   std::to_string(odd) + ", got: " + std::string(lost.message()));
  if (seconds > std::chrono::duration<double>(timeout).count() + 10)  // of a busy machine
    return Status(TN_INTERNAL, "told too late");
  const uint32_t again = rank < odd ? rank : rank - 1;
  Rank survivor = TN_TRY(join(r.device, store, again, size - 1, {.name = "survivors"}));
  return perform(survivor, survivor.comm, survivor.stream, {.dtype = f32, .count = 1'000, .seed = 2});
}

void check_fault(uint32_t odd, Route route, int signal, int32_t code, Timeout timeout) {
  const tenon::test::TempFolder folder;
  const auto children = start(size, [&](uint32_t rank) -> Status {
    return meet_fault(rank, odd, TN_TRY(Store::in_folder(folder.path())), route, signal, code, timeout);
  });
  for (uint32_t rank = 0; rank < size; ++rank)
    if (rank != odd) CHECK(ended(children[rank]) == 0);
  kill(children[odd], SIGKILL);
  CHECK(ended(children[odd]) == -SIGKILL);
}

}  // namespace

TEST_CASE("hierarchy processes: random collectives on every route are the reference's") {
  const uint64_t seed = tenon::test::seed();
  const tenon::test::TempFolder folder;
  const auto children = start(size, [&](uint32_t rank) -> Status {
    const Store store = TN_TRY(Store::in_folder(folder.path()));
    Rank r = TN_TRY(join_here(store, rank, size, {}));
    for (const Route route : {Route::leaders, Route::sharded}) {
      Hierarchy h = TN_TRY(in_hosts(r, route));
      std::mt19937_64 random(seed);
      for (int i = 0; i < 25; ++i) {
        Task task = draw(random, size, 60'000);
        if (task.how == Reduction::avg) task.how = Reduction::sum;  // routes round means in other places
        TN_TRY(perform(r, h.communicator(), r.stream, task));
      }
      TN_TRY(sum(r, h, 1'500'001));  // past one stage
    }
    Hierarchy measured = TN_TRY(in_hosts(r, std::nullopt));
    return sum(r, measured, 50'000);
  });
  for (const pid_t child : children) CHECK(ended(child) == 0);
}

TEST_CASE("hierarchy processes: several over one communicator, with other groups, go beside each other") {
  const tenon::test::TempFolder folder;
  const auto children = start(size, [&](uint32_t rank) -> Status {
    const Store store = TN_TRY(Store::in_folder(folder.path()));
    Rank r = TN_TRY(join_here(store, rank, size, {.timeout = std::chrono::seconds(20)}));
    std::vector<Hierarchy> kept;
    for (const uint32_t group : {rank / 2, rank % 2, rank / 2, rank % 2}) {
      kept.push_back(TN_TRY(
          Hierarchy::create(r.comm, {.group = "group " + std::to_string(group), .route = Route::leaders})));
      for (Hierarchy& h : kept) TN_TRY(sum(r, h, 10'000));
    }
    for (Hierarchy& h : kept) {
      const Buffer data = TN_TRY(r.uploaded(brought(i32, 3, rank, 777)));
      const CommOp op = CommOp::all_reduce(data, data, i32);
      TN_TRY(h.submit(r.stream, std::span(&op, 1), Route::sharded));
      TN_TRY(r.expect(data, all_reduced(i32, Reduction::sum, 3, size, 777), "a sum by shards"));
    }
    return {};
  });
  for (const pid_t child : children) CHECK(ended(child) == 0);
}

TEST_CASE("hierarchy processes: a killed rank is named to all, in its group and in others") {
  check_fault(3, Route::leaders, SIGKILL, TN_PEER_LOST, std::chrono::seconds(20));
  check_fault(2, Route::leaders, SIGKILL, TN_PEER_LOST, std::chrono::seconds(20));
  check_fault(1, Route::sharded, SIGKILL, TN_PEER_LOST, std::chrono::seconds(20));
}

TEST_CASE("hierarchy processes: a stopped rank is named to all, and not the leader who waits for it") {
  check_fault(3, Route::leaders, SIGSTOP, TN_TIMEOUT, std::chrono::seconds(2));
}

namespace {

// Rank 0 serves the store over TCP, and ends or stops itself between two sums: the others name it all the same, and go on
// without it on a store of their own.
Status lose_store(uint32_t rank, const std::string& folder, int signal, int32_t code, const char* fate) {
  Store places = TN_TRY(Store::in_folder(folder));
  const std::string token = "a secret of this test";
  Store store;
  if (rank == 0) {
    store = TN_TRY(Store::serve("127.0.0.1:0", token));
    TN_TRY(places.set("store", store.address()));
  } else {
    store = TN_TRY(Store::connect(TN_TRY(places.get("store")), token));
  }
  const Timeout timeout = std::chrono::seconds(2);
  Rank r = TN_TRY(join_here(store, rank, size, {.timeout = timeout}));
  Hierarchy h = TN_TRY(in_hosts(r, Route::leaders));
  TN_TRY(sum(r, h, 1'000));
  if (rank == 0) {
    raise(signal);
    return {};
  }
  const auto begin = Clock::now();
  const Status lost = sum(r, h, 1'000);
  const auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  std::printf("rank %u was told after %.3f s that the store %s with rank 0: %s\n", rank, seconds(), fate,
              std::string(lost.message()).c_str());
  const std::string name = "rank 0, which serves the store " + store.address() + ", " + fate;
  if (lost.code() != code || lost.message().find(name) == std::string_view::npos)
    return Status(TN_INTERNAL, "expected " + std::string(code_name(code)) + " of rank 0, got: " +
                                   std::string(code_name(lost.code())) + ": " + std::string(lost.message()));
  if (seconds() > 6) return Status(TN_INTERNAL, "told too late");
  const auto leaves = Clock::now();
  TN_TRY(h.communicator().destroy(timeout));
  if (std::chrono::duration<double>(Clock::now() - leaves).count() > 4)
    return Status(TN_INTERNAL, "it takes too long to leave");
  Rank again = TN_TRY(join(r.device, places, rank - 1, size - 1, {.name = "survivors"}));
  return perform(again, again.comm, again.stream, {.dtype = f32, .count = 1'000, .seed = 2});
}

}  // namespace

TEST_CASE("hierarchy processes: when the store goes with a rank, all others name that rank") {
  const tenon::test::TempFolder folder;
  const auto children = start(
      size, [&](uint32_t rank) { return lose_store(rank, folder.path(), SIGKILL, TN_PEER_LOST, "is gone"); });
  CHECK(ended(children[0]) == -SIGKILL);
  for (uint32_t rank = 1; rank < size; ++rank) CHECK(ended(children[rank]) == 0);
}

TEST_CASE("hierarchy processes: when the rank that serves the store is stopped, all others name it in time") {
  const tenon::test::TempFolder folder;
  const auto children = start(size, [&](uint32_t rank) {
    return lose_store(rank, folder.path(), SIGSTOP, TN_TIMEOUT, "does not answer");
  });
  for (uint32_t rank = 1; rank < size; ++rank) CHECK(ended(children[rank]) == 0);
  kill(children[0], SIGKILL);
  CHECK(ended(children[0]) == -SIGKILL);
}
