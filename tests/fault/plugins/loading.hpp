// SPDX-License-Identifier: Apache-2.0
// loading.hpp: a search with its own cache, environment and log, and words to look for in what comes out.
// Invariant: nothing of this machine's user (environment, cache, installed plugins) enters a test.
#pragma once

#include "plugin/registry.hpp"

#include "support/temp_folder.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace tenon::test {

inline std::string variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') FAIL(name << " is not set: run this through ctest");
  return value;
}

// The folder of all specimens, and the program that tries them.
inline std::string bad_folder() { return variable("TENON_TEST_BAD_DIR"); }
inline std::string probe_program() {
  const std::string path = variable("TENON_TEST_PROBE");
  if (!std::filesystem::exists(path)) FAIL(path << " was not built");
  return path;
}
inline std::string specimen(const std::string& name) { return bad_folder() + "/tenon-" + name + ".so"; }

class Loading {
 public:
  Loading() {
    host_.header = {sizeof(tn_host), TN_ABI_MAJOR, TN_ABI_MINOR};
    host_.min_major = TN_ABI_MAJOR;
    host_.name = "test";
    options.use_install_path = false;
    // Far beyond what any specimen but the hanging one needs, on a machine that does other things too.
    options.options = {
        {"probe.timeout_ms", "60000"}, {"probe.helper", probe_program()}, {"probe.cache", folder / "cache"}};
  }

  plugin::Registry load() {
    return plugin::load_all(options, host_, {base::Environment(elevated, variables), install_folder});
  }

  // Copies a specimen, and its manifest if it has one, into a folder of this test; returns the library's path there.
  std::string copy(const std::string& name, const std::string& into = "plugins") const {
    const std::string target = folder / into;
    std::filesystem::create_directories(target);
    TempFolder::allow(target, 0755);
    for (const std::string suffix : {".so", ".toml"}) {
      const std::string source = bad_folder() + "/tenon-" + name + suffix;
      if (std::filesystem::exists(source))
        std::filesystem::copy_file(source, target + "/tenon-" + name + suffix);
    }
    return target + "/tenon-" + name + ".so";
  }

  TempFolder folder;
  RuntimeOptions options;
  bool elevated = false;
  std::map<std::string, std::string, std::less<>> variables;
  std::string install_folder;

 private:
  tn_host host_{};
};

inline bool is_loaded(const Candidate& candidate) { return candidate.state == Candidate::State::loaded; }

inline const Candidate& candidate_at(const plugin::Registry& registry, const std::string& path) {
  const auto found = std::find_if(registry.candidates.begin(), registry.candidates.end(),
                                  [&](const Candidate& candidate) { return candidate.path == path; });
  if (found == registry.candidates.end()) FAIL("no candidate " << path);
  return *found;
}

inline bool says(const std::string& text, const std::string& words) {
  const bool found = text.find(words) != std::string::npos;
  if (!found) MESSAGE("'" << words << "' is not in: " << text);
  return found;
}

inline bool any_says(const std::vector<std::string>& texts, const std::string& words) {
  return std::any_of(texts.begin(), texts.end(),
                     [&](const std::string& text) { return text.find(words) != std::string::npos; });
}

}  // namespace tenon::test
