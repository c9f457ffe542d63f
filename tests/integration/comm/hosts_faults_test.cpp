// SPDX-License-Identifier: Apache-2.0
// hosts_faults_test.cpp: ranks of several hosts that are killed or stopped, and networks of their own.
//
// Invariant: the parent loads no plugin, and no child is left when a case ends.
#include "on_hosts.hpp"
#include "support/networks.hpp"

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
    const Status lost = r.stream.sync();
    const bool named =
        lost.code() == TN_PEER_LOST && lost.message().find("rank 2 (") != std::string_view::npos;
    return named ? Status() : Status(TN_INTERNAL, "got: " + std::string(lost.message()));
  });
  CHECK(ended(children[0]) == 0);
  CHECK(ended(children[1]) == 0);
  CHECK(ended(children[2]) == -SIGKILL);
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

// A rank on each side of the wire, joined over it.
std::vector<pid_t> on_both_sides(const Networks& networks, const std::string& folder, Timeout timeout,
                                 const std::function<Status(Rank&)>& body) {
  return start(2, [&](uint32_t rank) -> Status {
    TN_TRY(networks.enter(rank));
    Rank r = TN_TRY(join_on(rank == 0 ? 'a' : 'b', folder, rank, 2, {.timeout = timeout},
                            {{"cpu.interface", Networks::address(rank)}}));
    return body(r);
  });
}

}  // namespace

TEST_CASE("hosts: a wire that is cut is told to both sides within the timeout") {
  NEEDS_HOSTS();
  const Networks networks;
  if (!networks) TENON_SKIP("netns", "no network namespaces here; run as root where `ip netns` works");
  const tenon::test::TempFolder folder;
  const auto children =
      on_both_sides(networks, folder.path(), std::chrono::seconds(2), [&](Rank& r) -> Status {
        TN_TRY(checked_sum(r, 500'000));
        TN_TRY(r.comm.barrier(r.stream));
        TN_TRY(r.stream.sync());
        if (r.rank == 0 && !networks.cut()) return Status(TN_INTERNAL, "the wire could not be cut");
        const auto begin = Clock::now();
        const Status told = sum(r, 500'000);
        const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
        std::printf("rank %u was told after %.2f s: %s\n", r.rank, seconds,
                    std::string(told.message()).c_str());
        std::fflush(stdout);
        const bool named =
            told.message().find("rank " + std::to_string(1 - r.rank)) != std::string_view::npos;
        const bool right = (told.code() == TN_TIMEOUT || told.code() == TN_PEER_LOST) && named && seconds < 3;
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
  const auto children = on_both_sides(networks, folder.path(), std::chrono::seconds(1),
                                      [](Rank& r) { return checked_sum(r, 1'200'000); });
  for (const pid_t child : children) CHECK(ended(child) == 0);
  CHECK(std::chrono::duration<double>(Clock::now() - begin).count() > 1.5);  // 4.8 MB at 2 MB/s
}
