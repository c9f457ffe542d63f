// SPDX-License-Identifier: Apache-2.0
// environment.hpp: where a sample runs and by whose word, as the table that stands at its start.
//
// Invariant: a secret is named, and its value is not shown.
#pragma once

#include <tenon/tenon.hpp>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <unistd.h>

namespace sample {

// Variables that change what Tenon, its launchers or its plugins do, in the order of their names. Not while others set some.
inline std::vector<std::string> variables() {
  std::vector<std::string> out;
  for (char** at = environ; *at != nullptr; ++at) {
    const std::string_view line = *at;
    for (const std::string_view prefix : {"TENON_", "OMP_", "NCCL_", "FLAGS_"}) {
      if (!line.starts_with(prefix)) continue;
      const std::string name(line.substr(0, line.find('=')));
      out.push_back(name.ends_with("_TOKEN") ? name + "=(secret)" : std::string(line));
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

inline std::string environment(const tenon::Rendezvous& here, const tenon::Device& device) {
  std::string out = "environment\n";
  const auto row = [&](const std::string& name, const std::string& value) {
    out += "  " + name + std::string(name.size() < 36 ? 36 - name.size() : 1, ' ') + value + "\n";
  };
  row("rank", std::to_string(here.rank) + " of " + std::to_string(here.size));
  row("launcher", here.launcher.empty() ? "none" : here.launcher);
  row("device", device.info().name);
  for (const std::string& line : variables()) {
    const size_t equal = line.find('=');
    row(line.substr(0, equal), line.substr(equal + 1));
  }
  return out;
}

}  // namespace sample
