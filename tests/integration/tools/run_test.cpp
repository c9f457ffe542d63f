// SPDX-License-Identifier: Apache-2.0
// run_test.cpp: the parts of `tenon run` that only compute: cores, lines, frames, hosts and options.
// Invariant: no process is started, and the machine's own cores and hosts do not matter.
#include "tools/run_cores.hpp"
#include "tools/run_output.hpp"
#include "tools/run_plan.hpp"
#include "tools/run_wire.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

using namespace tenon;
using namespace tenon::tool::run;

namespace {

// `count` cores of two threads each, on nodes of `per_node`.
std::vector<Core> machine(uint32_t count, uint32_t per_node) {
  std::vector<Core> out;
  for (uint32_t c = 0; c < count; ++c) out.push_back({.node = c / per_node, .processors = {c, c + count}});
  return out;
}

std::vector<std::string> lines_of(std::initializer_list<std::string> pieces) {
  Lines lines;
  std::vector<std::string> out;
  const auto take = [&](std::string_view line) { out.emplace_back(line); };
  for (const std::string& piece : pieces) lines.add(piece, take);
  lines.finish(take);
  return out;
}

Asked asked(std::string hosts, std::string ranks = "") {
  Asked out;
  out.hosts = std::move(hosts);
  out.ranks = std::move(ranks);
  out.program = {"prog"};
  out.interface = "eth0";
  return out;
}

void check_refused(const Asked& what, std::initializer_list<const char*> parts) {
  const auto plan = plan_of(what, "here");
  REQUIRE(!plan.ok());
  for (const char* part : parts)
    CHECK_MESSAGE(plan.message().find(part) != std::string_view::npos, plan.message());
}

}  // namespace

TEST_CASE("run cores: sets by core are disjoint, whole and as even as they can be") {
  for (const uint32_t cores : {1u, 2u, 7u, 24u}) {
    for (uint32_t ranks = 1; ranks <= cores; ++ranks) {
      const auto shares = shares_of(machine(cores, 12), ranks, Bind::core);
      REQUIRE(shares.ok());
      std::set<uint32_t> seen;
      for (const Share& share : *shares) {
        CHECK(share.processors.size() == 2 * share.threads);
        CHECK(share.threads >= cores / ranks);
        CHECK(share.threads <= cores / ranks + 1);
        for (const uint32_t p : share.processors) CHECK(seen.insert(p).second);
      }
      CHECK(seen.size() == 2 * cores);
    }
  }
}

TEST_CASE("run cores: more ranks than cores are not bound, and an order to bind them is refused") {
  const auto loose = shares_of(machine(2, 2), 3, Bind::automatic);
  REQUIRE(loose.ok());
  for (const Share& share : *loose) CHECK((share.processors.empty() && share.threads == 1));
  const auto refused = shares_of(machine(2, 2), 3, Bind::core);
  REQUIRE(!refused.ok());
  CHECK(refused.message().find("3 ranks for 2 cores: use --bind none") != std::string_view::npos);
  const auto unknown = shares_of({}, 3, Bind::automatic);
  REQUIRE(unknown.ok());
  CHECK((*unknown)[2].processors.empty());
}

TEST_CASE("run cores: NUMA nodes are dealt out in order, and shared by their ranks") {
  const auto four = shares_of(machine(8, 4), 4, Bind::numa);
  REQUIRE(four.ok());
  CHECK(ranges((*four)[0].processors) == "0-3,8-11");
  CHECK((*four)[1].processors == (*four)[0].processors);
  CHECK(ranges((*four)[2].processors) == "4-7,12-15");
  CHECK((*four)[3].threads == 2);
  const auto one = shares_of(machine(8, 4), 1, Bind::numa);
  REQUIRE(one.ok());
  CHECK(ranges((*one)[0].processors) == "0-15");
  CHECK((*one)[0].threads == 8);
}

TEST_CASE("run lines: what is written in pieces is shown in whole lines") {
  CHECK(lines_of({"a", "b\nc", "d\n\n", "e"}) == std::vector<std::string>{"ab", "cd", "", "e"});
  CHECK(lines_of({"one\r\ntwo\r", "\n"}) == std::vector<std::string>{"one", "two"});
  CHECK(lines_of({" 10%\r 20%", "\r 30%\n"}) == std::vector<std::string>{" 30%"});
  CHECK(lines_of({}).empty());
}

TEST_CASE("run lines: a line past the limit comes in pieces that cut no character") {
  const std::string whole(Lines::longest, 'x');
  CHECK(lines_of({whole, "\n"}) == std::vector<std::string>{whole});
  std::string wide = "x";
  while (wide.size() < Lines::longest + 10) wide += "é";
  const auto pieces = lines_of({wide, "\n"});
  REQUIRE(pieces.size() == 2);
  CHECK(pieces[0] + pieces[1] == wide);
  CHECK(pieces[0].size() <= Lines::longest);
  CHECK((static_cast<unsigned char>(pieces[1][0]) & 0xC0) != 0x80);
}

TEST_CASE("run frames: any bytes pass, in any pieces") {
  Job job{.version = "1",
          .folder = "/a b",
          .command = {"p", "", "'\"$\n", std::string("\0\xff", 2)},
          .bind = Bind::numa};
  job.ranks = {{.rank = 3, .variables = {"A=b\nc", "E="}}, {.rank = 4}};
  const std::string bytes = framed(Word::job, 7, packed(job)) + framed(Word::beat);
  Frames frames;
  std::vector<Frame> found;
  for (const char c : bytes) {
    frames.add(std::string_view(&c, 1));
    const auto next = frames.next();
    REQUIRE(next.ok());
    if (*next) found.push_back(**next);
  }
  REQUIRE(found.size() == 2);
  CHECK(found[0].rank == 7);
  CHECK(found[1].word == Word::beat);
  const auto again = job_from(found[0].bytes);
  REQUIRE(again.ok());
  CHECK(again->command == job.command);
  CHECK(again->bind == Bind::numa);
  CHECK(again->ranks[0].variables == job.ranks[0].variables);
  CHECK(again->ranks[1].rank == 4);
}

TEST_CASE("run frames: what is cut off, longer or something else is refused") {
  const std::string whole =
      packed(Job{.version = "1", .command = {"p"}, .ranks = {{.rank = 1, .variables = {"A=b"}}}});
  REQUIRE(job_from(whole).ok());
  for (size_t size = 0; size < whole.size(); ++size) CHECK(!job_from(whole.substr(0, size)).ok());
  CHECK(!job_from(whole + "x").ok());
  Frames frames;
  frames.add("Welcome to host h2\n");
  CHECK(!frames.next().ok());
}

TEST_CASE("run plan: ranks are numbered host by host, and -n fills hosts in order") {
  const auto plan = plan_of(asked("here:2,h2:3,[fe80::1]"), "here");
  REQUIRE_MESSAGE(plan.ok(), plan.message());
  CHECK(plan->size == 6);
  CHECK(plan->hosts[0].here);
  CHECK(plan->hosts[1].first == 2);
  CHECK(plan->hosts[2].name == "[fe80::1]");
  CHECK((plan->hosts[2].first == 5 && plan->hosts[2].count == 1 && !plan->hosts[2].here));
  const auto fewer = plan_of(asked("h1:2,h2:2,h3:2", "3"), "here");
  REQUIRE(fewer.ok());
  CHECK((fewer->hosts.size() == 2 && fewer->hosts[1].count == 1));
}

TEST_CASE("run plan: each refusal names the option, its value and the remedy") {
  check_refused(asked("h1:2", "3"), {"-n is '3'", "room for 2", "raise"});
  check_refused(asked("h1:2,h1:1"), {"--hosts is 'h1:2,h1:1'", "twice", "h1:4"});
  check_refused(asked("localhost:1,here:1"), {"twice"});
  check_refused(asked("-oProxyCommand=x:1"), {"--hosts", "is no host", "NAME:RANKS"});
  check_refused(asked("h1 h2"), {"is no host"});
  check_refused(asked("h1:"), {"'h1:'", "as in h1:2"});
  check_refused(asked("", "0"), {"-n is '0'", "from 1"});
  Asked what = asked("", "2");
  what.devices = "0";
  check_refused(what, {"--devices is '0'", "2 ranks", "some twice"});
  what = asked("h1:2");
  what.interface.clear();
  check_refused(what, {"--hosts is 'h1:2'", "--interface eth0"});
}

TEST_CASE(
    "run plan: a rank gets its device, and other hosts get TENON_ and NCCL_ variables and what --env names") {
  Asked what = asked("");
  what.devices = "cpu:1,cpu:1,3";
  const auto plan = plan_of(what, "here");
  REQUIRE(plan.ok());
  CHECK(plan->size == 3);
  const auto variables = variables_of(
      *plan, plan->hosts[0], 1, {.address = "a:1", .token = "t", .restart = 2, .flights = "/logs/flight"});
  for (const char* one : {"TENON_RANK=1", "TENON_SIZE=3", "TENON_LOCAL_RANK=1", "TENON_LOCAL_SIZE=3",
                          "TENON_STORE=tcp://a:1", "TENON_STORE_TOKEN=t", "TENON_STORE_SERVER=launcher",
                          "TENON_RESTART=2", "TENON_DEVICE=cpu:1", "TENON_FLIGHT_DIR=/logs/flight"})
    CHECK(std::count(variables.begin(), variables.end(), one) == 1);
  const std::vector<std::string> own{"PATH=/bin", "TENON_LOG=info", "NCCL_SOCKET_IFNAME=eth0", "SEED=7",
                                     "NCCLX=1"};
  CHECK(passed_on(own, {"SEED", "X=a=b", "NOT_SET"}, true) == std::vector<std::string>{"SEED=7", "X=a=b"});
  CHECK(passed_on(own, {"SEED"}, false) ==
        std::vector<std::string>{"TENON_LOG=info", "NCCL_SOCKET_IFNAME=eth0", "SEED=7"});
}

TEST_CASE("run plan: a word for a shell means itself") {
  CHECK(shell_quoted("/a b/tenon") == "'/a b/tenon'");
  CHECK(shell_quoted("it's $(x)") == "'it'\\''s $(x)'");
}
