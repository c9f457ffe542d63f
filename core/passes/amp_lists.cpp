// SPDX-License-Identifier: Apache-2.0
// amp_lists.cpp: see amp_lists.hpp.
#include "passes/amp_lists.hpp"

#include "graph/columns.hpp"

#include <algorithm>
#include <iterator>

namespace tenon::passes {
namespace {

using enum AmpList;

struct Row {
  Op op;
  AmpList o1, o2;
};
constexpr Row rows[] = {
#define TN_AMP(op, o1, o2) {Op::op, o1, o2},
#include "passes/amp_lists.def"
};

constexpr Op ops[] = {
#define TN_OP(number, name, version, inputs_min, inputs_max, outputs, family, dtypes, shape, tolerance, \
              attributes, doc)                                                                          \
  Op::name,
#include <tenon/ops.def>
};
static_assert(std::ranges::all_of(ops, [](Op op) { return std::ranges::count(rows, op, &Row::op) == 1; }),
              "an op of ops.def has no row in amp_lists.def, or several");

}  // namespace

AmpList amp_list(Op op, AmpLevel level) noexcept {
  const Row& row = *std::ranges::find(rows, op, &Row::op);
  return level == AmpLevel::O1 ? row.o1 : row.o2;
}

bool is_subject(Op op, size_t i) noexcept {
  using graph::DtypeRule;
  switch (graph::columns_of(op).dtypes) {
    case DtypeRule::NORM:
      return i == 0 || (i == 1 && (op == Op::batch_norm_grad || op == Op::batch_norm_grad_stats ||
                                   op == Op::batch_norm_grad_apply || op == Op::layer_norm_grad ||
                                   op == Op::rms_norm_grad));
    case DtypeRule::FLOAT:
      return op != Op::attention_grad || i != 5;
    case DtypeRule::SELECT:
      return i > 0;
    case DtypeRule::LABEL:
    case DtypeRule::RANDOM:
      return i == 0;
    case DtypeRule::LOOKUP:
      return i == 1;
    default:
      return true;
  }
}

bool gives_subject(Op op, size_t i) noexcept {
  switch (op) {
    case Op::batch_norm_stats:
    case Op::batch_norm_grad_stats:
    case Op::cross_entropy:
      return false;
    case Op::attention:
      return i == 0;
    default:
      return i == 0 || graph::columns_of(op).dtypes != graph::DtypeRule::NORM;
  }
}

}  // namespace tenon::passes
