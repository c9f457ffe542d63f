// SPDX-License-Identifier: Apache-2.0
// processes.hpp: ranks as processes of this program.
//
// Ranks are forked before a plugin is loaded, because none survives a fork.
// Invariant: the parent loads no plugin.
#pragma once

#include "ranks.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <csignal>
#include <cstdio>

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

namespace comm_test {

// How a process ended: its exit code, or minus the signal.
inline int ended(pid_t child) {
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

// Starts body(rank) in a process for each; what it returns is told on standard error.
inline std::vector<pid_t> start(uint32_t size, const std::function<Status(uint32_t)>& body) {
  std::fflush(nullptr);
  std::vector<pid_t> children;
  for (uint32_t r = 0; r < size; ++r) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      const Status outcome = body(r);
      if (!outcome.ok()) std::fprintf(stderr, "rank %u: %s\n", r, std::string(outcome.message()).c_str());
      std::fflush(nullptr);
      _exit(outcome.ok() ? 0 : 1);
    }
    children.push_back(child);
  }
  return children;
}

// `sharing`: a value of cpu.share_memory; "staged": none, and nothing is read either; "large": none, and what is large is read;
// "quick": none, and what is read depends on how long that takes here.
inline Result<Rank> join_here(const Store& store, uint32_t rank, uint32_t size, CommOptions options,
                              const std::string& sharing = "with_peers") {
  static Runtime* const tenon = new Runtime;  // for the life of the process
  std::map<std::string, std::string> chosen = {{"cpu.share_memory", sharing},
                                               {"cpu.read_memory", "with_peers"}};
  const std::map<std::string, std::string> reads = {
      {"staged", "never"}, {"large", "large"}, {"quick", "where_quick"}};
  if (const auto found = reads.find(sharing); found != reads.end())
    chosen = {{"cpu.share_memory", "never"}, {"cpu.read_memory", found->second}};
  *tenon = TN_TRY(comm_test::runtime(std::move(chosen)));
  return join(TN_TRY(tenon->device("cpu")), store, rank, size, std::move(options));
}

// Keeps this process to `count` of its processors, so that ranks outnumber them on any machine. Before a thread is started.
inline void keep_to_processors(int count) {
  cpu_set_t all, some;
  CPU_ZERO(&some);
  if (sched_getaffinity(0, sizeof all, &all) != 0) return;
  for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&some) < count; ++cpu) {
    if (CPU_ISSET(cpu, &all)) CPU_SET(cpu, &some);
  }
  (void)sched_setaffinity(0, sizeof some, &some);
}

// A sum that must be right.
inline Status checked_sum(Rank& r, uint64_t count) {
  return perform(r, r.comm, r.stream,
                 {.kind = TN_COMM_ALL_REDUCE, .dtype = f32, .count = count, .in_place = true});
}

// A sum that is to fail, with the time until it does. [a rank's thread]
inline Status timed_sum(Rank& r, uint64_t count, const char* fault) {
  const auto begin = std::chrono::steady_clock::now();
  Status told = sum(r, count);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::printf("rank %u was told of %s after %.3f s\n", r.rank, fault, seconds);
  return told;
}

// The last rank ends or stops itself after a barrier; the others must name it, and go on without it.
inline Status meet_fault(Rank r, int signal, int32_t code, Timeout timeout) {
  using Clock = std::chrono::steady_clock;
  TN_TRY(r.comm.barrier(r.stream));
  TN_TRY(r.stream.sync());
  if (r.rank == r.size - 1) {
    raise(signal);
    return {};
  }
  const auto begin = Clock::now();
  const Status lost = checked_sum(r, 1'000'000);
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  std::printf("rank %u was told after %.3f s\n", r.rank, seconds);
  const std::string name = "rank " + std::to_string(r.size - 1) + " (";
  if (lost.code() != code || lost.message().find(name) == std::string_view::npos)
    return Status(TN_INTERNAL, "expected " + std::string(code_name(code)) + " of " + name +
                                   "…), got: " + std::string(lost.message()));
  if (seconds > std::chrono::duration<double>(timeout).count() + 10)  // of a busy machine
    return Status(TN_INTERNAL, "told too late");
  Rank again = TN_TRY(join(r.device, r.store, r.rank, r.size - 1, {.name = "survivors"}));
  return checked_sum(again, 300'000);
}

}  // namespace comm_test
