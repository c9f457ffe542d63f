// SPDX-License-Identifier: Apache-2.0
// The benchmark of fusion: what cutting a graph costs, and what the CPU plugin's fused kernels gain.
//
// Invariant: standard output carries one JSON object a line and nothing else.
#include "rows.hpp"

int main() {
  bench::scheduler_rows();
#ifdef BENCH_KERNELS
  bench::chain_rows();
  bench::norm_rows();
  bench::update_rows();
  bench::attention_rows();
  bench::matmul_rows();
  bench::conv_rows();
#endif
}
