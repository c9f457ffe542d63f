// SPDX-License-Identifier: Apache-2.0
// Which cases run, and which share a process.
#include "conformance/runner.hpp"
#include "conformance/schedule.hpp"

#include <doctest/doctest.h>

#include <deque>
#include <set>
#include <string>

using namespace tenon::conform;

TEST_CASE("selection: every case has a level, a group and a name of its own") {
  std::set<std::string> names;
  for (const Case& known : all_cases()) {
    CAPTURE(known.name);
    CHECK(names.insert(known.name).second);
    CHECK(known.level >= 0);
    CHECK(known.level <= 4);
    CHECK((known.run != nullptr));
    CHECK(std::string(known.name).find(": ") != std::string::npos);
    CHECK(std::string(known.name).find('\'') == std::string::npos);  // reproduce lines quote names with it
  }
  CHECK(names.size() > 60);
}

TEST_CASE("selection: filters are globs, parts of names, or one whole name") {
  const auto count = [](std::vector<std::string> filters) {
    Options options;
    options.filters = std::move(filters);
    return select(options).size();
  };
  CHECK(count({}) == all_cases().size());
  CHECK(count({"copy: zero bytes are legal everywhere"}) == 1);
  CHECK(count({"copy: *"}) > 5);
  CHECK(count({"zero bytes"}) >= 3);
  CHECK(count({"copy: *", "fill: *"}) == count({"copy: *"}) + count({"fill: *"}));
  CHECK(count({"no such case"}) == 0);
}

TEST_CASE("selection: cases of one group share a process, those that are alone do not") {
  Options options;
  options.level = 0;
  const auto chosen = select(options);
  size_t total = 0;
  std::set<std::string> shared;
  for (const Batch& batch : batches(chosen, 3, 1)) {
    CHECK(batch.round == 3);
    REQUIRE_FALSE(batch.cases.empty());
    total += batch.cases.size();
    const Case& first = *batch.cases.front();
    if (first.alone) CHECK(batch.cases.size() == 1);
    if (!first.alone) CHECK(shared.insert(std::string(first.group())).second);  // one process per group
    for (const Case* member : batch.cases) CHECK(member->group() == first.group());
  }
  CHECK(total == chosen.size());
}

TEST_CASE("selection: groups that are together share a process, as many as asked, whole and in order") {
  const auto chosen = select(Options{});
  const auto apart = batches(chosen, 0, 1), made = batches(chosen, 0, 8);
  std::set<std::string> seen;
  size_t total = 0, full = 0;
  for (const Batch& batch : made) {
    std::vector<std::string> groups;
    for (const Case* member : batch.cases) {
      if (batch.cases.front()->alone) continue;
      const std::string group = std::to_string(member->level) + std::string(member->group());
      if (groups.empty() || groups.back() != group) groups.push_back(group);
    }
    CHECK(groups.size() <= 8);
    for (const std::string& group : groups) CHECK(seen.insert(group).second);
    full += groups.size() == 8 ? 1 : 0;
    total += batch.cases.size();
  }
  CHECK(total == chosen.size());
  CHECK(full > 20);
  CHECK(made.size() < apart.size() / 3);
}

TEST_CASE("selection: a group too large for one request is several processes, and loses no case") {
  std::deque<std::string> names;
  std::deque<Case> cases;
  std::vector<const Case*> chosen;
  for (int i = 0; i < 3000; ++i) {
    names.push_back("op: case number " + std::to_string(i));
    cases.push_back({.level = 1, .name = names.back().c_str()});
    chosen.push_back(&cases.back());
  }
  std::vector<const Case*> found;
  const auto made = batches(chosen, 0, 1);
  CHECK(made.size() > 2);
  for (const Batch& batch : made) {
    size_t bytes = 0;
    for (const Case* member : batch.cases) bytes += std::string(member->name).size();
    CHECK(bytes <= most_name_bytes);
    found.insert(found.end(), batch.cases.begin(), batch.cases.end());
  }
  CHECK((found == chosen));
}

TEST_CASE("options: the environment gives those that were not asked for, by the library's name") {
  const char* const environment[] = {"TENON_SIM_PROFILE=ascend",
                                     "TENON_SIM_MAX_STREAMS=3",
                                     "TENON_CPU_THREADS=2",
                                     "TENON_SIM_=x",
                                     "SIM_SEED=9",
                                     nullptr};
  Options options{.plugin = "/somewhere/tenon-sim.so"};
  options.options = {{"max_streams", "7"}};
  add_environment(options, environment);
  CHECK((options.options == std::map<std::string, std::string>{{"max_streams", "7"}, {"profile", "ascend"}}));
}
