// SPDX-License-Identifier: Apache-2.0
// ranks.cu: the reductions over ranks that come compiled, an entry for each type and each reduction that it has (ranks.cpp names them).
//
// Invariant: what ranks.cpp calls an entry is one here; check_fatbin.py and the tests of communicators ask for each.
#include "prelude.cuh"
#include "math.cuh"
#include "cast.cuh"
#include "fold.cuh"
#include "exchange.cuh"
#include "ranks.cuh"

namespace tn {

#define TN_RANKS(word, T, Join, scaled, mean) \
  TN_ENTRY(ranks_##word##_##T, RanksParameters) { reduce_ranks<T, Join, scaled, mean>(p); }
#define TN_RANKS_OF(T)                     \
  TN_RANKS(sum, T, Sum, false, false)      \
  TN_RANKS(product, T, Product, false, false) \
  TN_RANKS(least, T, Least, false, false)  \
  TN_RANKS(greatest, T, Greatest, false, false) \
  TN_RANKS(mean, T, Sum, false, true)      \
  TN_RANKS(scaled_sum, T, Sum, true, false)

TN_RANKS(sum, b8, Any, false, false)
TN_RANKS(product, b8, All, false, false)
TN_RANKS(least, b8, All, false, false)
TN_RANKS(greatest, b8, Any, false, false)
TN_RANKS_OF(u8)
TN_RANKS_OF(i8)
TN_RANKS_OF(u16)
TN_RANKS_OF(i16)
TN_RANKS_OF(u32)
TN_RANKS_OF(i32)
TN_RANKS_OF(u64)
TN_RANKS_OF(i64)
TN_RANKS_OF(f16)
TN_RANKS_OF(bf16)
TN_RANKS_OF(f32)
TN_RANKS_OF(f64)

}  // namespace tn
