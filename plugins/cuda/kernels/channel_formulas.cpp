// SPDX-License-Identifier: Apache-2.0
// channel_formulas.cpp: what each batch norm is, in sums over a channel and elementwise nodes.
//
// The variance is that of x − k, where k is the middle one of three samples of the channel: mean and spread come from one pass over x,
// and lose no more than (mean − k)² / variance roundings, however far from 0 the mean is. A sample that is no number is none.
// Invariant: an element is computed from what is kept of its channel, whoever made it, so that train, infer and apply agree.
#include "channel_nodes.hpp"

namespace tenon::cuda {

namespace {

class Formula {
 public:
  Formula(const NodeView& node, ChannelNodes& out) : node_(node), out_(out) {}

  void train() {
    const uint32_t x = input(0);
    const uint32_t centre = out_.count() == 0 ? out_.number(0) : middle_sample(x);
    const uint32_t off = compute(TN_OP_sub, {x, centre}), shift = out_.fold(TN_OP_mean, off),
                   square = out_.fold(TN_OP_mean, compute(TN_OP_square, {off}));
    const uint32_t mean = compute(TN_OP_add, {out_.count() == 0 ? centre : out_.of_channel(centre), shift});
    const uint32_t spread = compute(TN_OP_sub, {square, compute(TN_OP_square, {shift})});
    const uint32_t variance = compute(TN_OP_max, {spread, out_.number(0)});
    const uint32_t inverse = inverse_root(variance);
    const auto count = static_cast<double>(out_.count());
    const double unbiased = count > 1 ? count / (count - 1) : 1;
    statistic(mean, 1);
    statistic(inverse, 2);
    statistic(running(3, mean), 3);
    statistic(running(4, out_.scale(variance, unbiased)), 4);
    const uint32_t slope = compute(TN_OP_mul, {input(1), inverse});
    normalise(x, out_.keep(mean), out_.keep(slope));
  }

  void infer() {
    const uint32_t slope = compute(TN_OP_mul, {input(1), inverse_root(input(4))});
    normalise(input(0), input(3), out_.keep(slope));
  }
  void apply() { normalise(input(0), input(3), compute(TN_OP_mul, {input(1), input(4)})); }

  void stats() {
    const uint32_t x = input(0);
    statistic(out_.fold(TN_OP_sum, x), 0);
    statistic(out_.fold(TN_OP_sum, compute(TN_OP_square, {x})), 1);
  }

  void grad() {
    const uint32_t dy = input(0), x = input(1), mean = input(3), inverse = input(4);
    const auto [sum, dot] = sums_of(dy, x, mean, inverse);
    statistic(dot, 1);
    statistic(sum, 2);
    const double share = 1 / static_cast<double>(out_.count());
    differ(dy, x, mean, compute(TN_OP_mul, {input(2), inverse}), out_.scale(sum, share),
           compute(TN_OP_mul, {out_.scale(dot, -share), inverse}));
  }
  void grad_stats() {
    const auto [sum, dot] = sums_of(input(0), input(1), input(2), input(3));
    statistic(sum, 0);
    statistic(dot, 1);
  }
  void grad_apply() {
    const uint32_t inverse = input(4), count = input(7);
    const uint32_t tilt = compute(TN_OP_mul, {compute(TN_OP_div, {input(6), count}), inverse});
    differ(input(0), input(1), input(3), compute(TN_OP_mul, {input(2), inverse}),
           compute(TN_OP_div, {input(5), count}), compute(TN_OP_neg, {tilt}));
  }

 private:
  struct Sums {
    uint32_t sum, dot;
  };

  uint32_t compute(uint32_t op, std::initializer_list<uint32_t> inputs) { return out_.compute(op, inputs); }
  uint32_t input(uint32_t i) { return out_.cast(node_.raw().inputs[i], out_.computing()); }
  void statistic(uint32_t from, uint32_t output) {
    if (node_.gives(output)) out_.give(from, node_.raw().outputs[output], true);
  }

  uint32_t middle_sample(uint32_t x) {
    const uint32_t a = out_.sample(x, 0), b = out_.sample(x, 1), c = out_.sample(x, 2);
    const uint32_t low = compute(TN_OP_min, {a, b}), high = compute(TN_OP_max, {a, b});
    const uint32_t middle = compute(TN_OP_max, {low, compute(TN_OP_min, {high, c})});
    return compute(TN_OP_where, {compute(TN_OP_is_finite, {middle}), middle, out_.number(0)});
  }

  uint32_t inverse_root(uint32_t variance) {
    return compute(TN_OP_rsqrt, {out_.scale(variance, 1, node_.real("epsilon"))});
  }

  // momentum · running + (1 − momentum) · batch
  uint32_t running(uint32_t i, uint32_t batch) {
    const double keep = node_.real("momentum");
    return compute(TN_OP_add, {out_.scale(input(i), keep), out_.scale(batch, 1 - keep)});
  }

  // y = (x − mean) · slope + bias
  void normalise(uint32_t x, uint32_t mean, uint32_t slope) {
    const uint32_t off = compute(TN_OP_sub, {x, out_.along(mean)});
    const uint32_t y = compute(TN_OP_fma, {off, out_.along(slope), out_.along(input(2))});
    if (node_.gives(0)) out_.give(y, node_.raw().outputs[0], false);
  }

  // Σdy and Σdy·x̂
  Sums sums_of(uint32_t dy, uint32_t x, uint32_t mean, uint32_t inverse) {
    const uint32_t off = compute(TN_OP_sub, {x, out_.along(mean)}), sum = out_.fold(TN_OP_sum, dy),
                   product = out_.fold(TN_OP_sum, compute(TN_OP_mul, {dy, off}));
    return {sum, compute(TN_OP_mul, {product, inverse})};
  }

  // dx = slope · (dy − level + (x − mean) · tilt)
  void differ(uint32_t dy, uint32_t x, uint32_t mean, uint32_t slope, uint32_t level, uint32_t tilt) {
    const uint32_t off = compute(TN_OP_sub, {x, out_.along(mean)}),
                   rest = compute(TN_OP_sub, {dy, out_.along(out_.keep(level))}),
                   bent = compute(TN_OP_fma, {off, out_.along(out_.keep(tilt)), rest}),
                   dx = compute(TN_OP_mul, {bent, out_.along(out_.keep(slope))});
    if (node_.gives(0)) out_.give(dx, node_.raw().outputs[0], false);
  }

  const NodeView& node_;
  ChannelNodes& out_;
};

}  // namespace

void spell_out_channels(const NodeView& node, ChannelNodes& out) {
  Formula formula(node, out);
  switch (node.op()) {
    case TN_OP_batch_norm_train:
      return formula.train();
    case TN_OP_batch_norm_infer:
      return formula.infer();
    case TN_OP_batch_norm_apply:
      return formula.apply();
    case TN_OP_batch_norm_stats:
      return formula.stats();
    case TN_OP_batch_norm_grad:
      return formula.grad();
    case TN_OP_batch_norm_grad_stats:
      return formula.grad_stats();
    default:
      return formula.grad_apply();
  }
}

}  // namespace tenon::cuda
