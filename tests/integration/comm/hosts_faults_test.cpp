// SPDX-License-Identifier: Apache-2.0
// hosts_faults_test.cpp: ranks of several hosts that are killed or stopped, and networks of their own.
//
// Invariant: the parent loads no plugin, and no child is left when a case ends.
#include "on_hosts.hpp"
#include "support/networks.hpp"
#include "system_figures.hpp"
#include "tools/flight_story.hpp"

#include <chrono>
#include <cstdio>

#include <signal.h>

using namespace comm_test;

namespace {

using Clock = std::chrono::steady_clock;

void check_fault(const Map& map, int signal, int32_t code, Timeout timeout) {
  const tenon::test::TempFolder folder;
  const auto children = start(static_cast<uint32_t>(map.size()), [&](uint32_t rank) -> Status {
    const auto size = static_cast<uint32_t>(map.size());
    return meet_fault(TN_TRY(join_on(map[rank], folder.path(), rank, size, {.timeout = timeout})), signal,
                      code, timeout);
  });
  for (size_t r = 0; r + 1 < children.size(); ++r) CHECK(ended(children[r]) == 0);
  if (signal == SIGSTOP) kill(children.back(), SIGKILL);
  CHECK(ended(children.back()) == -SIGKILL);
}

}  // namespace

TEST_CASE("hosts: a killed rank is TN_PEER_LOST on all hosts at once, and they go on without it") {
  NEEDS_HOSTS();
  const auto begin = Clock::now();
  check_fault("aabb", SIGKILL, TN_PEER_LOST, std::chrono::seconds(60));
  check_fault("abc", SIGKILL, TN_PEER_LOST, std::chrono::seconds(60));
  CHECK(std::chrono::duration<double>(Clock::now() - begin).count() < 50);
}

TEST_CASE("hosts: a stopped rank is TN_TIMEOUT on all hosts, and they go on without it") {
  NEEDS_HOSTS();
  check_fault("aab", SIGSTOP, TN_TIMEOUT, std::chrono::seconds(2));
}

TEST_CASE("hosts: a rank that is killed with large sums under way is TN_PEER_LOST on all hosts") {
  NEEDS_HOSTS();
  const tenon::test::TempFolder folder;
  const Map map = "abb";
  const auto children = start(3, [&](uint32_t rank) -> Status {
    Rank r = TN_TRY(join_on(map[rank], folder.path(), rank, 3, {.timeout = std::chrono::seconds(60)}));
    const Buffer data = TN_TRY(r.buffer(64 << 20));
    TN_TRY(r.comm.all_reduce(r.stream, data, data, f32));
    TN_TRY(r.stream.sync());
    TN_TRY(r.comm.all_reduce(r.stream, data, data, f32));
    if (rank == 2) raise(SIGKILL);
    const auto begin = Clock::now();
    const Status lost = r.stream.sync();
    std::printf("rank %u was told after %.3f s\n", rank,
                std::chrono::duration<double>(Clock::now() - begin).count());
    const bool named =
        lost.code() == TN_PEER_LOST && lost.message().find("rank 2 (") != std::string_view::npos;
    return named ? Status() : Status(TN_INTERNAL, "got: " + std::string(lost.message()));
  });
  CHECK(ended(children[0]) == 0);
  CHECK(ended(children[1]) == 0);
  CHECK(ended(children[2]) == -SIGKILL);
}

TEST_CASE(
    "hosts: of messages in a circle the error tells who waits for whom, and the records tell the circle") {
  NEEDS_HOSTS();
  const tenon::test::TempFolder flights;
  REQUIRE(setenv("TENON_FLIGHT_DIR", flights.path().c_str(), 1) == 0);
  const auto told = outcomes_on("abc", {.timeout = std::chrono::seconds(1)}, [](Rank& r) -> Status {
    const Buffer data = TN_TRY(r.buffer(1 << 20));
    TN_TRY(r.comm.submit(r.stream, {CommOp::send(data, f32, (r.rank + 1) % 3)}));
    TN_TRY(r.stream.sync());
    return r.comm.submit(r.stream, {CommOp::recv(data, f32, (r.rank + 2) % 3)});
  });
  unsetenv("TENON_FLIGHT_DIR");
  for (const Status& outcome : told) {
    CHECK_MESSAGE(outcome.code() == TN_TIMEOUT, outcome.message());
    CHECK_MESSAGE(outcome.message().find(" to receive: look") != std::string_view::npos, outcome.message());
  }
  const auto story = tenon::tool::tell_flight(flights.path());
  REQUIRE_MESSAGE(story.ok(), story.message());
  for (const char* part : {"rank 0 waits for rank 1 to receive", "rank 1 waits for rank 2 to receive",
                           "rank 2 waits for rank 0 to receive"})
    CHECK_MESSAGE(story->find(part) != std::string::npos, *story);
}

TEST_CASE("hosts: communicators that ended for one rank leave no connection and no descriptor behind") {
  NEEDS_HOSTS();
  const std::vector<Status> told = as_hosts("aab", [](uint32_t rank, const std::string& folder) -> Status {
    Rank r = TN_TRY(join_on("aab" [rank], folder, rank, 3, {}));
    std::vector<size_t> open;
    for (uint32_t round = 0; round < 6; ++round) {
      const CommOptions options{.name = "round " + std::to_string(round),
                                .timeout = std::chrono::seconds(60)};
      Rank one = TN_TRY(join(r.device, r.store, rank, 3, options));
      TN_TRY(checked_sum(one, 100'000));
      if (rank == round % 3) TN_TRY(one.comm.abort());
      const Status end = checked_sum(one, 100'000);
      if (end.code() != TN_ABORTED) return Status(TN_INTERNAL, "not told: " + std::string(end.message()));
      static_cast<void>(one.comm.destroy());
      one = {};
      TN_TRY(checked_sum(r, 1'000));  // all have let go
      open.push_back(open_descriptors());
    }
    for (size_t count : open)
      if (count > open[1])
        return Status(TN_INTERNAL,
                      "descriptors: " + std::to_string(open[1]) + ", then " + std::to_string(count));
    return {};
  });
  for (const Status& outcome : told) CHECK_MESSAGE(outcome.ok(), outcome.message());
}

TEST_CASE("hosts: networks of their own are reached over the interface that is named, or not at all") {
  NEEDS_HOSTS();
  const tenon::test::Networks networks;
  if (!networks) TENON_SKIP("netns", "no network namespaces here; run as root where `ip netns` works");
  const tenon::test::TempFolder named, unnamed;
  const auto joined = start(4, [&](uint32_t rank) -> Status {
    const size_t side = rank / 2;
    TN_TRY(networks.enter(side));
    std::map<std::string, std::string> over;
    over["cpu.interface"] = rank % 2 == 0 ? tenon::test::Networks::address(side) : networks.name(side);
    Rank r = TN_TRY(
        join_on(side == 0 ? 'a' : 'b', named.path(), rank, 4, {.timeout = std::chrono::seconds(20)}, over));
    return checked_sum(r, 500'000);
  });
  for (const pid_t child : joined) CHECK(ended(child) == 0);
  const auto refused = start(2, [&](uint32_t rank) -> Status {
    TN_TRY(networks.enter(rank));
    const auto r =
        join_on(rank == 0 ? 'a' : 'b', unnamed.path(), rank, 2, {.timeout = std::chrono::seconds(20)});
    const bool right =
        r.code() == TN_INVALID && r.message().find("option 'interface'") != std::string_view::npos;
    return right ? Status() : Status(TN_INTERNAL, "got: " + std::string(r.message()));
  });
  for (const pid_t child : refused) CHECK(ended(child) == 0);
}

namespace {

using tenon::test::Networks;

// A rank for each of `sides` of the wire, joined over it.
std::vector<pid_t> on_both_sides(const Networks& networks, const std::vector<size_t>& sides,
                                 const std::string& folder, Timeout timeout,
                                 const std::function<Status(Rank&)>& body) {
  const auto size = static_cast<uint32_t>(sides.size());
  return start(size, [&networks, sides, folder, timeout, body, size](uint32_t rank) -> Status {
    const size_t side = sides[rank];
    TN_TRY(networks.enter(side));
    Rank r = TN_TRY(join_on(side == 0 ? 'a' : 'b', folder, rank, size, {.timeout = timeout},
                            {{"cpu.interface", Networks::address(side)}}));
    return body(r);
  });
}

// Rank 0 takes the wire away; then `told` is what this rank gets of a sum, within three times its timeout of 2 s: a machine that does
// other things besides may hear of bytes late, and counts from the last. [all ranks]
Status after_cut(Rank& r, Communicator& comm, const Networks& networks, Status& told) {
  TN_TRY(comm.barrier(r.stream));
  TN_TRY(r.stream.sync());
  if (r.rank == 0 && !networks.cut()) return Status(TN_INTERNAL, "the wire could not be cut");
  const auto begin = Clock::now();
  told = perform(r, comm, r.stream, {.dtype = f32, .count = 500'000, .in_place = true});
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  std::printf("rank %u was told of the cut after %.2f s: %s\n", r.rank, seconds,
              std::string(told.message()).c_str());
  std::fflush(stdout);
  return seconds < 6 ? Status() : Status(TN_INTERNAL, "told too late");
}

}  // namespace

TEST_CASE("hosts: a wire that is cut is told to both sides within the timeout, and each goes on by itself") {
  NEEDS_HOSTS();
  const Networks networks;
  if (!networks) TENON_SKIP("netns", "no network namespaces here; run as root where `ip netns` works");
  const tenon::test::TempFolder folder;
  const auto timeout = std::chrono::seconds(2);
  const auto children = on_both_sides(networks, {0, 0, 1}, folder.path(), timeout, [&](Rank& r) -> Status {
    TN_TRY(checked_sum(r, 500'000));
    Status told;
    TN_TRY(after_cut(r, r.comm, networks, told));
    const bool here = r.rank < 2;
    const auto names = [&](const char* rank) { return told.message().find(rank) != std::string_view::npos; };
    const bool named = here ? names("rank 2 (") : names("rank 0 (") || names("rank 1 (");
    if ((told.code() != TN_TIMEOUT && told.code() != TN_PEER_LOST) || !named)
      return Status(TN_INTERNAL, "got: " + std::string(told.message()));
    Rank again = TN_TRY(join(r.device, r.store, here ? r.rank : 0, here ? 2 : 1,
                             {.name = here ? "side a" : "side b", .timeout = timeout}));
    return checked_sum(again, 10'000);
  });
  for (const pid_t child : children) CHECK(ended(child) == 0);
}

TEST_CASE("hosts: a wire that is cut between a hierarchy and its store is told to both sides, naming ranks") {
  NEEDS_HOSTS();
  const Networks networks;
  if (!networks) TENON_SKIP("netns", "no network namespaces here; run as root where `ip netns` works");
  const tenon::test::TempFolder folder;
  const auto children =
      on_both_sides(networks, {0, 0, 1, 1}, folder.path(), std::chrono::seconds(2), [&](Rank& r) -> Status {
        Store store;
        if (r.rank == 0) {
          store = TN_TRY(Store::serve(Networks::address(0) + ":0", "a secret"));
          TN_TRY(r.store.set("store", store.address()));
        } else {
          store = TN_TRY(Store::connect(TN_TRY(r.store.get("store")), "a secret"));
        }
        Rank over = TN_TRY(join(r.device, store, r.rank, 4, {.timeout = std::chrono::seconds(2)}));
        Hierarchy h =
            TN_TRY(Hierarchy::create(over.comm, {.group = r.rank < 2 ? "a" : "b", .route = Route::leaders}));
        Status told;
        TN_TRY(after_cut(over, h.communicator(), networks, told));
        const std::string named =
            r.rank < 2 ? "ranks 2, 3 give no sign of life" : "rank 0, which serves the store ";
        const bool right = (told.code() == TN_TIMEOUT || told.code() == TN_PEER_LOST) &&
                           told.message().find(named) != std::string_view::npos;
        return right ? Status() : Status(TN_INTERNAL, "got: " + std::string(told.message()));
      });
  for (const pid_t child : children) CHECK(ended(child) == 0);
}

TEST_CASE("hosts: a wire so slow that a sum takes longer than the timeout is no fault") {
  NEEDS_HOSTS();
  const Networks networks;
  if (!networks || !networks.shape("16mbit"))
    TENON_SKIP("netns", "no network namespaces here; run as root where `ip netns` and `tc` work");
  const tenon::test::TempFolder folder;
  const auto begin = Clock::now();
  const auto children = on_both_sides(networks, {0, 1}, folder.path(), std::chrono::seconds(1),
                                      [](Rank& r) { return checked_sum(r, 1'200'000); });
  for (const pid_t child : children) CHECK(ended(child) == 0);
  CHECK(std::chrono::duration<double>(Clock::now() - begin).count() > 1.5);  // 4.8 MB at 2 MB/s
}

TEST_CASE("hosts: nor is one that a message takes longer on, in one direction or both") {
  NEEDS_HOSTS();
  const Networks networks;
  if (!networks || !networks.shape("16mbit"))
    TENON_SKIP("netns", "no network namespaces here; run as root where `ip netns` and `tc` work");
  const tenon::test::TempFolder folder;
  const auto begin = Clock::now();
  const auto children =
      on_both_sides(networks, {0, 1}, folder.path(), std::chrono::milliseconds(1500), [](Rank& r) -> Status {
        constexpr uint64_t count = 1'500'000;
        const uint32_t other = 1 - r.rank;
        const Buffer mine = TN_TRY(r.uploaded(brought(f32, 3, r.rank, count)));
        const Buffer theirs = TN_TRY(r.buffer(count * sizeof(float)));
        const CommOp sends = CommOp::send(mine, f32, other), takes = CommOp::recv(theirs, f32, other);
        TN_TRY(r.comm.submit(r.stream, {r.rank == 0 ? sends : takes}));
        TN_TRY(r.stream.sync());
        TN_TRY(r.comm.submit(r.stream, {sends, takes}));
        return r.expect(theirs.span(), brought(f32, 3, other, count), "a message over a slow wire");
      });
  for (const pid_t child : children) CHECK(ended(child) == 0);
  CHECK(std::chrono::duration<double>(Clock::now() - begin).count() > 5);  // twice 6 MB at 2 MB/s
}
