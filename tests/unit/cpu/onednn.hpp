// SPDX-License-Identifier: Apache-2.0
// onednn.hpp: whether the plugin under test was built with oneDNN, as its answer to a product tells, and why a test leaves.
//
// Invariant: one plain product of f32 decides: whatever else is refused is a finding and no reason to leave.
#pragma once

#include "harness.hpp"

namespace cpu_test {

inline constexpr const char* no_onednn = "this build has TENON_CPU_ONEDNN=OFF, as under TSan";

// c[m,n] = a[m,k] · b[k,n], row by row; c is an output.
inline void add_plain_product(FragmentBuilder& f, uint32_t dtype, int64_t m, int64_t k, int64_t n) {
  const uint32_t a = f.input(dtype, {m, k}), b = f.input(dtype, {k, n});
  f.node(TN_OP_matmul, {a, b}, {f.output(dtype, {m, n})}).integer("transpose_a", 0).integer("transpose_b", 0);
}

inline bool has_onednn(tn_device* device) {
  FragmentBuilder f;
  add_plain_product(f, TN_DTYPE_f32, 2, 2, 2);
  return supports(device, f.fragment()).verdict != TN_SUPPORT_NO;
}

}  // namespace cpu_test
