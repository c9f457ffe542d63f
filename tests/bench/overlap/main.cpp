// SPDX-License-Identifier: Apache-2.0
// The benchmark of overlap: what planning takes, and what steps of two ranks take whose gradients leave by different rules.
//
//   bench_overlap           all rows
//   bench_overlap PART …    planner, policies, figures; a contest's name, as resnet50/10Gbit, for that alone
//
// Invariant: standard output carries one JSON object a line and nothing else.
#include "parts.hpp"

#include <algorithm>
#include <string>
#include <vector>

int main(int argc, char** argv) {
  const std::vector<std::string> parts(argv + 1, argv + argc);
  const auto asked = [&](const std::string& part) {
    return parts.empty() || std::find(parts.begin(), parts.end(), part) != parts.end();
  };
  if (asked("planner")) bench::planner();
  bench::policies([&](const std::string& contest) { return asked("policies") || asked(contest); });
  bench::figures([&](const std::string& contest) { return asked("figures") || asked(contest); });
}
