// SPDX-License-Identifier: Apache-2.0
// ranks.cpp: which reductions over ranks there are, and their names.
#include "ranks.hpp"

#include <tenon/comm.h>
#include <tenon/author/names.hpp>
#include <tenon/author/text.hpp>

#include <iterator>

namespace tenon::cuda {

namespace {

struct Join {
  const char* word;
  bool of_bools;
};
// By the number of the reduction.
constexpr Join joins[] = {{"", false},        {"sum", true},   {"product", true},    {"least", true},
                          {"greatest", true}, {"mean", false}, {"scaled_sum", false}};
static_assert(std::size(joins) == TN_REDUCE_PREMUL_SUM + 1);

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

#include "ranks_image.inc"

}  // namespace

const void* ranks_image() noexcept { return ranks_bytes; }

bool reduces_ranks(uint32_t dtype, uint32_t reduce) noexcept {
  if (ranks_type(dtype)[0] == '\0' || reduce == 0 || reduce >= std::size(joins)) return false;
  return dtype != TN_DTYPE_bool || joins[reduce].of_bools;
}

std::string ranks_entry(uint32_t dtype, uint32_t reduce) {
  if (!reduces_ranks(dtype, reduce)) return {};
  return author::text("ranks_", joins[reduce].word, "_", ranks_type(dtype));
}

}  // namespace tenon::cuda
