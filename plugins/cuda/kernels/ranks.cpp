// SPDX-License-Identifier: Apache-2.0
// ranks.cpp: the prelude, the templates, and one line for each entry.
#include "ranks.hpp"

#include "prelude.hpp"

#include <tenon/comm.h>
#include <tenon/author/names.hpp>

#include <iterator>

namespace tenon::cuda {

namespace {

struct Join {
  const char *entry, *fold, *fold_of_bools;  // no fold: there is no such reduction of bools
  bool scaled, mean;
};
// By the number of the reduction.
constexpr Join joins[] = {
    {"", "", "", false, false},
    {"ranks_sum", "Sum", "Any", false, false},
    {"ranks_product", "Product", "All", false, false},
    {"ranks_least", "Least", "All", false, false},
    {"ranks_greatest", "Greatest", "Any", false, false},
    {"ranks_mean", "Sum", "", false, true},
    {"ranks_scaled_sum", "Sum", "", true, false},
};

// The type of prelude.cuh; empty for one that is not reduced.
const char* ranks_type(uint32_t dtype) noexcept {
  switch (dtype) {
    case TN_DTYPE_bool:
      return "b8";
#define TN_DTYPE_OF_RANKS(name) \
  case TN_DTYPE_##name:         \
    return #name;
      TN_DTYPE_OF_RANKS(u8)
      TN_DTYPE_OF_RANKS(i8)
      TN_DTYPE_OF_RANKS(u16)
      TN_DTYPE_OF_RANKS(i16)
      TN_DTYPE_OF_RANKS(u32)
      TN_DTYPE_OF_RANKS(i32)
      TN_DTYPE_OF_RANKS(u64)
      TN_DTYPE_OF_RANKS(i64)
      TN_DTYPE_OF_RANKS(f16)
      TN_DTYPE_OF_RANKS(bf16)
      TN_DTYPE_OF_RANKS(f32)
      TN_DTYPE_OF_RANKS(f64)
#undef TN_DTYPE_OF_RANKS
    default:
      return "";
  }
}

}  // namespace

bool reduces_ranks(uint32_t dtype, uint32_t reduce) noexcept {
  if (ranks_type(dtype)[0] == '\0' || reduce == 0 || reduce >= std::size(joins)) return false;
  return dtype != TN_DTYPE_bool || joins[reduce].fold_of_bools[0] != '\0';
}

const char* ranks_entry(uint32_t reduce) noexcept {
  return reduce < std::size(joins) ? joins[reduce].entry : "";
}

std::string write_ranks(uint32_t dtype) {
  Source out;
  if (ranks_type(dtype)[0] == '\0') return {};
  out.plain(std::string(prelude_source()));
  out.plain(std::string(ranks_source()));
  out.line();
  out.line("namespace tn {");
  for (uint32_t reduce = TN_REDUCE_SUM; reduce < std::size(joins); ++reduce) {
    if (!reduces_ranks(dtype, reduce)) continue;
    const Join& join = joins[reduce];
    out.line();
    out.open("TN_ENTRY(", join.entry, ", RanksParameters)");
    out.line("reduce_ranks<", ranks_type(dtype), ", ",
             dtype == TN_DTYPE_bool ? join.fold_of_bools : join.fold, ", ", join.scaled ? "true" : "false",
             ", ", join.mean ? "true" : "false", ">(p);");
    out.close();
  }
  close_source(out);
  return out.text();
}

}  // namespace tenon::cuda
