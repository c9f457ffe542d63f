// SPDX-License-Identifier: Apache-2.0
// row_formulas.cpp: softmax, losses, layer and RMS norm as elementwise nodes and reductions.
//
// Invariant: nothing overflows that ops.def does not let overflow: exponents are at most 0, and a variance is the mean of squares
// about the mean, not a difference of squares.
#include "lowered.hpp"

#include <limits>

namespace tenon::cuda {

namespace {

class Formula {
 public:
  Formula(const tn_node& node, Lowered& out)
      : node_(node),
        out_(out),
        dims_(out.view().tensor(node.inputs[0]).dims()),
        wide_(out.view().tensor(node.inputs[0]).dtype() == TN_DTYPE_f64 ? TN_DTYPE_f64 : TN_DTYPE_f32) {}

  void write() {
    switch (node_.op) {
      case TN_OP_softmax:
      case TN_OP_log_softmax:
        fold_axis();
        return softmax();
      case TN_OP_softmax_grad:
        fold_axis();
        return softmax_grad();
      case TN_OP_cross_entropy:
        fold_last(1);
        return cross_entropy();
      case TN_OP_cross_entropy_grad:
        fold_last(1);
        return cross_entropy_grad();
      case TN_OP_layer_norm:
      case TN_OP_rms_norm:
        fold_last(*author::attribute_i64(node_, "axes"));
        return normalise();
      default:
        fold_last(*author::attribute_i64(node_, "axes"));
        return normalise_grad();
    }
  }

 private:
  void fold_axis() {
    const int64_t axis = *author::attribute_i64(node_, "axis");
    folded_.resize(dims_.size());
    folded_[static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(dims_.size()) : axis)] = true;
  }
  void fold_last(int64_t axes) {
    folded_.assign(dims_.size(), false);
    for (size_t i = dims_.size() - static_cast<size_t>(axes); i < dims_.size(); ++i) folded_[i] = true;
  }

  uint32_t in(uint32_t i) { return out_.cast(node_.inputs[i], wide_); }
  bool gives(uint32_t i) const { return i < node_.output_count && node_.outputs[i] != TN_ABSENT; }
  void give(uint32_t i, uint32_t from) {
    if (gives(i)) out_.give(from, node_.outputs[i]);
  }
  uint32_t number(double value) { return out_.number(wide_, value); }
  uint32_t add(uint32_t a, uint32_t b) { return out_.compute(TN_OP_add, {a, b}); }
  uint32_t sub(uint32_t a, uint32_t b) { return out_.compute(TN_OP_sub, {a, b}); }
  uint32_t mul(uint32_t a, uint32_t b) { return out_.compute(TN_OP_mul, {a, b}); }
  uint32_t apply(uint32_t op, uint32_t a) { return out_.compute(op, {a}); }
  uint32_t where(uint32_t c, uint32_t a, uint32_t b) { return out_.compute(TN_OP_where, {c, a, b}); }
  uint32_t fold(uint32_t op, uint32_t a) { return out_.reduce(op, a, folded_); }
  // One element a row, beside each element of its row.
  uint32_t spread(uint32_t a) {
    Dims dims(dims_.begin(), dims_.end());
    for (size_t i = 0; i < dims.size(); ++i) dims[i] = folded_[i] ? 1 : dims[i];
    return out_.reshape(a, std::move(dims));
  }

  // log Σe^x about the greatest x; where that is infinite the sum counts as 1, so that -∞ stays -∞.
  struct Exponentials {
    uint32_t greatest, sum;  // by row
    uint32_t shifted;        // x − greatest
  };
  Exponentials exponentials(uint32_t x) {
    const uint32_t numbers = where(out_.compute(TN_OP_equal, {x, x}), x, number(-infinity));
    const uint32_t greatest = fold(TN_OP_reduce_max, numbers), shifted = sub(x, spread(greatest));
    const uint32_t sum = fold(TN_OP_sum, apply(TN_OP_exp, shifted));
    return {greatest, where(apply(TN_OP_is_finite, greatest), sum, number(1)), shifted};
  }

  void softmax() {
    const Exponentials e = exponentials(in(0));
    if (node_.op == TN_OP_log_softmax) return give(0, sub(e.shifted, spread(apply(TN_OP_log, e.sum))));
    give(0, mul(apply(TN_OP_exp, e.shifted), spread(apply(TN_OP_reciprocal, e.sum))));
  }

  void softmax_grad() {
    const uint32_t dy = in(0), y = in(1);
    give(0, mul(y, sub(dy, spread(fold(TN_OP_sum, mul(dy, y))))));
  }

  uint32_t labels() { return out_.cast(node_.inputs[1], TN_DTYPE_i64); }
  // Whether a row has a loss: its label names a class, and not the ignored one.
  uint32_t counts(uint32_t labels) {
    const uint32_t from = out_.compute(TN_OP_greater_equal, {labels, out_.number(0)}),
                   to = out_.compute(TN_OP_less, {labels, out_.number(dims_[1])}),
                   meant = out_.compute(TN_OP_not_equal,
                                        {labels, out_.number(*author::attribute_i64(node_, "ignore_index"))});
    return out_.compute(TN_OP_logical_and, {out_.compute(TN_OP_logical_and, {from, to}), meant});
  }

  void cross_entropy() {
    const uint32_t x = in(0), which = labels();
    const Exponentials e = exponentials(x);
    const uint32_t log = apply(TN_OP_log, e.sum);
    if (gives(0)) {
      const uint32_t score = fold(TN_OP_sum, where(out_.one_hot(which, dims_[1]), x, number(0)));
      give(0, where(counts(which), add(sub(e.greatest, score), log), number(0)));
    }
    give(1, add(e.greatest, log));
  }

  void cross_entropy_grad() {
    const uint32_t x = in(0), which = labels(), log = in(2), dloss = in(3);
    const uint32_t share = apply(TN_OP_exp, sub(x, spread(log)));
    const uint32_t less = where(out_.one_hot(which, dims_[1]), sub(share, number(1)), share);
    give(0, where(spread(counts(which)), mul(spread(dloss), less), number(0)));
  }

  uint32_t inverse_root(uint32_t square) {
    const double epsilon = *author::attribute_f64(node_, "epsilon");
    const uint32_t more = out_.compute(TN_OP_scale, {square},
                                       {{.name = "bias", .kind = TN_ATTRIBUTE_F64, .f64 = epsilon},
                                        {.name = "scale", .kind = TN_ATTRIBUTE_F64, .f64 = 1}});
    return apply(TN_OP_rsqrt, more);
  }

  void normalise() {
    const bool centred = node_.op == TN_OP_layer_norm;
    uint32_t x = in(0);
    if (centred) {
      const uint32_t mean = fold(TN_OP_mean, x);
      give(1, mean);
      x = sub(x, spread(mean));
    }
    const uint32_t inverse = inverse_root(fold(TN_OP_mean, apply(TN_OP_square, x)));
    give(centred ? 2 : 1, inverse);
    const uint32_t y = mul(mul(x, spread(inverse)), in(1));
    give(0, centred ? add(y, in(2)) : y);
  }

  void normalise_grad() {
    const bool centred = node_.op == TN_OP_layer_norm_grad;
    const uint32_t dy = in(0), inverse = spread(in(centred ? 4 : 3));
    const uint32_t apart = centred ? sub(in(1), spread(in(3))) : in(1), unit = mul(apart, inverse);
    if (gives(0)) {
      const uint32_t weighted = mul(dy, in(2));
      const uint32_t tilt = spread(fold(TN_OP_mean, mul(weighted, unit)));
      const uint32_t level = centred ? sub(weighted, spread(fold(TN_OP_mean, weighted))) : weighted;
      give(0, mul(inverse, sub(level, mul(unit, tilt))));
    }
    std::vector<bool> rows = folded_;
    rows.flip();
    if (gives(1)) give(1, out_.reduce(TN_OP_sum, mul(dy, unit), rows));
    if (gives(2)) give(2, out_.reduce(TN_OP_sum, dy, rows));
  }

  static constexpr double infinity = std::numeric_limits<double>::infinity();
  const tn_node& node_;
  Lowered& out_;
  std::span<const int64_t> dims_;
  uint32_t wide_;
  std::vector<bool> folded_{};  // the dims that a row runs over
};

}  // namespace

bool is_over_rows(uint32_t op) noexcept {
  switch (op) {
    case TN_OP_softmax:
    case TN_OP_softmax_grad:
    case TN_OP_log_softmax:
    case TN_OP_cross_entropy:
    case TN_OP_cross_entropy_grad:
    case TN_OP_layer_norm:
    case TN_OP_layer_norm_grad:
    case TN_OP_rms_norm:
    case TN_OP_rms_norm_grad:
      return true;
    default:
      return false;
  }
}

void spell_out(const tn_node& node, Lowered& out) { Formula(node, out).write(); }

}  // namespace tenon::cuda
