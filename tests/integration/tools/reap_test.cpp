// SPDX-License-Identifier: Apache-2.0
// reap_test.cpp: in which order children that have ended are told.
// Invariant: all have ended before the first is reaped, so the order is that of `reap` alone.
#include "tools/run_process.hpp"

#include <doctest/doctest.h>

#include <csignal>

#include <sys/wait.h>

using namespace tenon::tool::run;

TEST_CASE("run reaping: of children that are reaped together the one that a signal killed comes first") {
  std::vector<pid_t> children;
  for (const char* end : {"exit 1", "exit 0", "kill -SEGV $$", "exit 2"}) {
    const auto child = start({.command = {"sh", "-c", end}, .environment = own_environment()});
    REQUIRE_MESSAGE(child.ok(), child.message());
    children.push_back(*child);
    siginfo_t info{};
    REQUIRE(waitid(P_PID, static_cast<id_t>(*child), &info, WEXITED | WNOWAIT) == 0);
  }
  const std::vector<Ended> ended = reap();
  REQUIRE(ended.size() == children.size());
  CHECK(ended.front().pid == children[2]);
  CHECK(exit_code(ended.front().status) == 128 + SIGSEGV);
  CHECK(childless());
}
