// SPDX-License-Identifier: Apache-2.0
// The folder with every bad plugin in it: each has its reason, and the good one works.
#include "fault/plugins/loading.hpp"

#include <set>

using namespace tenon;
using namespace tenon::test;

TEST_CASE("all-bad: every library ends as one candidate, and only the good one is loaded") {
  Loading loading;
  loading.options.options["probe.timeout_ms"] = "3000";  // for the one that hangs
  loading.options.search_path = {bad_folder()};
  const plugin::Registry registry = loading.load();
  std::set<std::string> paths;
  for (const Candidate& candidate : registry.candidates) {
    CAPTURE(candidate.path);
    CHECK(paths.insert(candidate.path).second);
    if (is_loaded(candidate)) {
      CHECK(candidate.reason.empty());
    } else {
      CHECK(candidate.reason.size() > 20);
      CHECK(candidate.reason.find('\n') == std::string::npos);
    }
  }
  for (const auto& entry : std::filesystem::directory_iterator(bad_folder())) {
    const std::string path = entry.path().string();
    if (path.ends_with(".so")) CHECK(paths.contains(path));
  }
  REQUIRE(registry.loaded.size() == 1);
  CHECK(registry.loaded[0]->name == "good");
  const tn_plugin& good = registry.loaded[0]->tables->descriptor;
  uint32_t count = 0;
  CHECK(good.device->count(&good, &count, nullptr) == TN_OK);
  CHECK(count == 1);
  CHECK(registry.candidates.size() >= 35);
}

TEST_CASE("all-bad: of a name that is taken, the one that has it is named") {
  Loading loading;
  loading.options.options["probe.timeout_ms"] = "3000";
  loading.options.search_path = {bad_folder()};
  const plugin::Registry registry = loading.load();
  CHECK(says(candidate_at(registry, specimen("same_name")).reason,
             "'good' is already loaded from " + specimen("good")));
  CHECK(any_says(candidate_at(registry, specimen("same_name")).warnings, "call the file tenon-good.toml"));
  CHECK(says(candidate_at(registry, bad_folder() + "/tenon-library_gone.so").reason, "does not exist, but"));
  CHECK(says(candidate_at(registry, specimen("no_manifest")).reason, "no manifest"));
}
