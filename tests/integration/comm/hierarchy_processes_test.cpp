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

TEST_CASE("hierarchy processes: a killed rank is named to all, in its group and in others") {
  check_fault(3, Route::leaders, SIGKILL, TN_PEER_LOST, std::chrono::seconds(20));
  check_fault(2, Route::leaders, SIGKILL, TN_PEER_LOST, std::chrono::seconds(20));
  check_fault(1, Route::sharded, SIGKILL, TN_PEER_LOST, std::chrono::seconds(20));
}

TEST_CASE("hierarchy processes: a stopped rank is named to all, and not the leader who waits for it") {
  check_fault(3, Route::leaders, SIGSTOP, TN_TIMEOUT, std::chrono::seconds(2));
}

TEST_CASE("hierarchy processes: when the store goes with a rank, nobody hangs") {
  const tenon::test::TempFolder folder;
  const std::string token = "a secret of this test";
  const auto children = start(size, [&](uint32_t rank) -> Status {
    Store places = TN_TRY(Store::in_folder(folder.path()));
    Store store;
    if (rank == 0) {
      store = TN_TRY(Store::serve("127.0.0.1:0", token));
      TN_TRY(places.set("store", store.address()));
    } else {
      store = TN_TRY(Store::connect(TN_TRY(places.get("store")), token));
    }
    Rank r = TN_TRY(join_here(store, rank, size, {.timeout = std::chrono::seconds(2)}));
    Hierarchy h = TN_TRY(in_hosts(r, Route::leaders));
    TN_TRY(sum(r, h, 1'000));
    if (rank == 0) raise(SIGKILL);
    const auto begin = Clock::now();
    const Status lost = sum(r, h, 1'000);
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    if (lost.ok() || seconds > 8)
      return Status(TN_INTERNAL, "told nothing, or late: " + std::to_string(seconds));
    if (lost.message().find("store") == std::string_view::npos)
      return Status(TN_INTERNAL, "no word about the store: " + std::string(lost.message()));
    return {};
  });
  CHECK(ended(children[0]) == -SIGKILL);
  for (uint32_t rank = 1; rank < size; ++rank) CHECK(ended(children[rank]) == 0);
}
