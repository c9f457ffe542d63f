// SPDX-License-Identifier: Apache-2.0
// on_hosts.hpp: ranks as processes of several hosts that are one machine: each host has another name in option `cpu.host`,
// so ranks of two share no memory and meet over loopback.
//
// Invariant: a case that needs the engine between hosts skips where that was not built; the parent loads no plugin.
#pragma once

#include "processes.hpp"
#include "support/skip.hpp"
#include "support/temp_folder.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace comm_test {

inline bool hosts_can_meet() {
  const char* folder = std::getenv("TENON_TEST_PLUGIN_DIR");
  return folder != nullptr && std::filesystem::exists(std::filesystem::path(folder) / "libtenon-gloo.so");
}

#define NEEDS_HOSTS()    \
  if (!hosts_can_meet()) \
  TENON_SKIP("gloo", "libtenon-gloo.so was not built; install libgloo-dev and configure again")

// Which host each rank is on: "aab" has ranks 0 and 1 on a, rank 2 on b.
using Map = std::string;

inline Result<Runtime> runtime_on(char host, std::map<std::string, std::string> more = {}) {
  more["cpu.host"] = std::string(1, host);
  return comm_test::runtime(std::move(more));
}

inline Result<Rank> join_on(char host, const std::string& folder, uint32_t rank, uint32_t size,
                            CommOptions options, std::map<std::string, std::string> more = {}) {
  static Runtime* const tenon = new Runtime;  // for the life of the process
  *tenon = TN_TRY(runtime_on(host, std::move(more)));
  const Store store = TN_TRY(Store::in_folder(folder));
  return join(TN_TRY(tenon->device("cpu")), store, rank, size, std::move(options));
}

// Runs body(rank) in a process for each rank, placed as `map` says; what they returned.
inline std::vector<Status> as_hosts(const Map& map,
                                    const std::function<Status(uint32_t, const std::string& folder)>& body) {
  const test::TempFolder folder, told;
  const auto file = [&](size_t rank) { return told / std::to_string(rank); };
  const auto children = start(static_cast<uint32_t>(map.size()), [&](uint32_t rank) -> Status {
    const Status outcome = body(rank, folder.path());
    std::ofstream(file(rank)) << outcome.code() << ' ' << outcome.message();
    return {};
  });
  std::vector<Status> outcomes;
  for (size_t rank = 0; rank < children.size(); ++rank) {
    const int end = ended(children[rank]);
    int32_t code = TN_OK;
    std::stringstream words;
    std::ifstream said(file(rank));
    if (end != 0 || !(said >> code)) {
      outcomes.emplace_back(
          TN_INTERNAL, "the process of rank " + std::to_string(rank) + " ended with " + std::to_string(end));
      continue;
    }
    words << said.rdbuf();
    outcomes.push_back(code == TN_OK ? Status() : Status(code, words.str()));
  }
  return outcomes;
}

// The same for ranks that have joined.
inline std::vector<Status> outcomes_on(const Map& map, const CommOptions& options,
                                       const std::function<Status(Rank&)>& body) {
  return as_hosts(map, [&](uint32_t r, const std::string& folder) -> Status {
    Rank rank = TN_TRY(join_on(map[r], folder, r, static_cast<uint32_t>(map.size()), options));
    TN_TRY(body(rank));
    return rank.stream.sync();
  });
}

// The same, where each rank that fails is a failure.
inline void together_on(const Map& map, const std::function<Status(Rank&)>& body) {
  for (const Status& outcome : outcomes_on(map, {}, body)) CHECK_MESSAGE(outcome.ok(), outcome.message());
}

}  // namespace comm_test
