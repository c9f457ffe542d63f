// SPDX-License-Identifier: Apache-2.0
// The benchmark of fusion: what cutting a graph costs, and what the CPU plugin's fused kernels gain.
//   bench_fusion [scheduler | chains | norms | updates | attention | spelled | matmul | conv]…
//
// Invariant: standard output carries one JSON object a line and nothing else.
#include "rows.hpp"

#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

int main(int argc, char** argv) {
  const std::pair<std::string_view, void (*)()> parts[] = {
      {"scheduler", bench::scheduler_rows},
#ifdef BENCH_KERNELS
      {"chains", bench::chain_rows},        {"norms", bench::norm_rows},      {"updates", bench::update_rows},
      {"attention", bench::attention_rows}, {"matmul", bench::matmul_rows},   {"linear", bench::linear_rows},
      {"conv", bench::conv_rows},           {"spelled", bench::spelled_rows},
#endif
  };
  const std::vector<std::string_view> asked(argv + 1, argv + argc);
  for (const std::string_view part : asked) {
    if (std::ranges::any_of(parts, [&](const auto& one) { return one.first == part; })) continue;
    std::fprintf(stderr, "bench_fusion: '%s' is none of its parts\n", std::string(part).c_str());
    return 1;
  }
  for (const auto& [name, rows] : parts)
    if (asked.empty() || std::ranges::count(asked, name) > 0) rows();
}
