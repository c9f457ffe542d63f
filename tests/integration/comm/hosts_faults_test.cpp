// SPDX-License-Identifier: Apache-2.0
// hosts_faults_test.cpp: ranks of several hosts that are killed or stopped, and networks of their own.
//
// Invariant: the parent loads no plugin, and no child is left when a case ends.
#include "on_hosts.hpp"

#include <chrono>
#include <cstdio>

#include <fcntl.h>
#include <sched.h>
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

// Two networks that reach each other over one wire, for the life of this.
class Networks {
 public:
  Networks() {
    const std::string mark = "tnh" + std::to_string(getpid());
    for (const char* side : {"a", "b"}) names_.push_back(mark + side);
    made_ = geteuid() == 0 && ip("netns add " + names_[0]) && ip("netns add " + names_[1]) &&
            ip("link add " + names_[0] + " netns " + names_[0] + " type veth peer name " + names_[1] +
               " netns " + names_[1]);
    for (size_t i = 0; made_ && i < 2; ++i) {
      made_ = ip("-n " + names_[i] + " addr add " + address(i) + "/30 dev " + names_[i]) &&
              ip("-n " + names_[i] + " link set lo up") &&
              ip("-n " + names_[i] + " link set " + names_[i] + " up");
    }
  }
  Networks(const Networks&) = delete;
  Networks& operator=(const Networks&) = delete;
  ~Networks() {
    for (const std::string& name : names_) ip("netns del " + name);
  }

  explicit operator bool() const { return made_; }
  static std::string address(size_t side) { return side == 0 ? "10.231.78.1" : "10.231.78.2"; }
  const std::string& interface(size_t side) const { return names_[side]; }
  // Moves this process there.
  Status enter(size_t side) const {
    const int space = open(("/run/netns/" + names_[side]).c_str(), O_RDONLY | O_CLOEXEC);
    const bool there = space >= 0 && setns(space, CLONE_NEWNET) == 0;
    if (space >= 0) close(space);
    return there ? Status() : Status(TN_INTERNAL, "cannot enter " + names_[side]);
  }

 private:
  static bool ip(const std::string& words) {
    return std::system(("ip " + words + " 2>/dev/null").c_str()) == 0;
  }
  std::vector<std::string> names_;
  bool made_ = false;
};

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
  const Networks networks;
  if (!networks) TENON_SKIP("netns", "no network namespaces here; run as root where `ip netns` works");
  const tenon::test::TempFolder named, unnamed;
  const auto joined = start(4, [&](uint32_t rank) -> Status {
    const size_t side = rank / 2;
    TN_TRY(networks.enter(side));
    std::map<std::string, std::string> over;
    over["cpu.interface"] = rank % 2 == 0 ? Networks::address(side) : networks.interface(side);
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
