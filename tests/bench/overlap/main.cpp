// SPDX-License-Identifier: Apache-2.0
// The benchmark of overlap: what planning takes, and what steps of two ranks take whose gradients leave by different rules.
//
//   bench_overlap           all rows
//   bench_overlap PART …    planner, policies, figures
//
// Invariant: standard output carries one JSON object a line and nothing else.
#include "parts.hpp"

#include <algorithm>
#include <string>
#include <vector>

int main(int argc, char** argv) {
  const std::vector<std::string> parts(argv + 1, argv + argc);
  const auto asked = [&](const char* part) {
    return parts.empty() || std::find(parts.begin(), parts.end(), part) != parts.end();
  };
  if (asked("planner")) bench::planner();
  if (asked("policies")) bench::policies();
  if (asked("figures")) bench::figures();
}
