// SPDX-License-Identifier: Apache-2.0
// normalisation.cpp: batch norm takes its statistics over all but dim 1, layer and RMS norm over the last dims.
//
// Both are groups of elements with a mean and a spread, so one set of formulas serves.
#include "node.hpp"

#include <cmath>

namespace tenon::sim {

namespace {

// Which group an element belongs to, and which parameter scales it.
struct Groups {
  uint64_t inner = 1, groups = 1, per_group = 1;
  bool rows = false;

  static Groups channels(const Operand& x) {
    Groups out;
    out.groups = static_cast<uint64_t>(x.dim(1));
    for (size_t i = 2; i < x.dims().size(); ++i) out.inner *= static_cast<uint64_t>(x.dim(i));
    out.per_group = static_cast<uint64_t>(x.dim(0)) * out.inner;
    return out;
  }
  static Groups last(const Operand& x, int64_t axes) {
    Groups out{.rows = true};
    for (int64_t i = 0; i < axes; ++i) out.inner *= static_cast<uint64_t>(x.dims().rbegin()[i]);
    out.per_group = out.inner;
    out.groups = out.inner == 0 ? 0 : x.count() / out.inner;
    return out;
  }
  uint64_t group(uint64_t i) const { return rows ? i / inner : i / inner % groups; }
  uint64_t parameter(uint64_t i) const { return rows ? i % inner : group(i); }
  uint64_t parameters() const { return rows ? inner : groups; }
  double count() const { return static_cast<double>(per_group); }
};

struct Moments {
  std::vector<Wide> mean, variance, square;  // square: mean of x²
};

Moments moments_of(const Operand& x, const Groups& g) {
  Moments m{std::vector<Wide>(g.groups), std::vector<Wide>(g.groups), std::vector<Wide>(g.groups)};
  for (uint64_t i = 0; i < x.count(); ++i) {
    m.mean[g.group(i)] += x.real(i) / g.count();
    m.square[g.group(i)] += Wide(x.real(i)) * x.real(i) / g.count();
  }
  for (uint64_t i = 0; i < x.count(); ++i) {
    const Wide away = x.real(i) - m.mean[g.group(i)];
    m.variance[g.group(i)] += away * away / g.count();
  }
  return m;
}

Wide inverse_root(Wide variance, const Call& c) { return 1 / std::sqrt(variance + c.node.real("epsilon")); }

// y = (x − mean) · inv · scale + bias, with mean and inv of each group.
template <class Mean, class Inverse>
void normalise(const Call& c, const Groups& g, Mean&& mean, Inverse&& inverse) {
  for (uint64_t i = 0; i < c.in[0].count(); ++i) {
    const uint64_t n = g.group(i), p = g.parameter(i);
    const double bias = c.node.op == TN_OP_rms_norm ? 0 : c.in[2].real(p);
    c.out[0].set(i, (c.in[0].real(i) - mean(n)) * inverse(n) * c.in[1].real(p) + bias);
  }
}

Moments forward(const Call& c, const Groups& g) {
  Moments m = moments_of(c.in[0], g);
  const auto inverse = [&](uint64_t n) { return inverse_root(m.variance[n], c); };
  normalise(
      c, g, [&](uint64_t n) { return m.mean[n]; }, inverse);
  for (uint64_t n = 0; n < g.groups; ++n) {
    if (c.gives(1)) c.out[1].set(n, m.mean[n]);
    if (c.gives(2)) c.out[2].set(n, inverse(n));
  }
  return m;
}

// dx and the parameters' gradients from dy, x, scale. Without `mean` (RMS norm) nothing is centred.
void backward(const Call& c, const Groups& g, const Operand* mean, const Operand& inverse) {
  const Operand &dy = c.in[0], &x = c.in[1], &scale = c.in[2];
  const auto hat = [&](uint64_t i) {
    return (Wide(x.real(i)) - (mean != nullptr ? mean->real(g.group(i)) : 0)) * inverse.real(g.group(i));
  };
  std::vector<Wide> grads(g.groups), dots(g.groups), dscale(g.parameters()), dbias(g.parameters());
  for (uint64_t i = 0; i < x.count(); ++i) {
    const Wide weighted = Wide(dy.real(i)) * scale.real(g.parameter(i));
    grads[g.group(i)] += weighted;
    dots[g.group(i)] += weighted * hat(i);
    dscale[g.parameter(i)] += dy.real(i) * hat(i);
    dbias[g.parameter(i)] += dy.real(i);
  }
  for (uint64_t i = 0; i < x.count(); ++i) {
    const uint64_t n = g.group(i);
    const Wide level = mean != nullptr ? grads[n] / g.count() : 0;
    const Wide weighted = Wide(dy.real(i)) * scale.real(g.parameter(i));
    c.out[0].set(i, inverse.real(n) * (weighted - level - hat(i) * dots[n] / g.count()));
  }
  for (uint64_t p = 0; p < g.parameters(); ++p) {
    if (c.gives(1)) c.out[1].set(p, dscale[p]);
    if (mean != nullptr && c.gives(2)) c.out[2].set(p, dbias[p]);
  }
}

void batch_norm_train(const Call& c) {
  const Groups g = Groups::channels(c.in[0]);
  const Moments m = forward(c, g);
  const double keep = c.node.real("momentum"), unbiased = g.count() > 1 ? g.count() / (g.count() - 1) : 1;
  for (uint64_t n = 0; n < g.groups; ++n) {
    if (c.gives(3)) c.out[3].set(n, keep * c.in[3].real(n) + (1 - keep) * m.mean[n]);
    if (c.gives(4)) c.out[4].set(n, keep * c.in[4].real(n) + (1 - keep) * m.variance[n] * unbiased);
  }
}

void batch_norm_infer(const Call& c) {
  normalise(
      c, Groups::channels(c.in[0]), [&](uint64_t n) { return c.in[3].real(n); },
      [&](uint64_t n) { return inverse_root(c.in[4].real(n), c); });
}

void batch_norm_apply(const Call& c) {
  normalise(
      c, Groups::channels(c.in[0]), [&](uint64_t n) { return c.in[3].real(n); },
      [&](uint64_t n) { return c.in[4].real(n); });
}

void batch_norm_grad(const Call& c) { backward(c, Groups::channels(c.in[0]), &c.in[3], c.in[4]); }

void batch_norm_stats(const Call& c) {
  const Groups g = Groups::channels(c.in[0]);
  std::vector<Wide> sums(g.groups), squares(g.groups);
  for (uint64_t i = 0; i < c.in[0].count(); ++i) {
    sums[g.group(i)] += c.in[0].real(i);
    squares[g.group(i)] += Wide(c.in[0].real(i)) * c.in[0].real(i);
  }
  for (uint64_t n = 0; n < g.groups; ++n) {
    if (c.gives(0)) c.out[0].set(n, sums[n]);
    if (c.gives(1)) c.out[1].set(n, squares[n]);
  }
}

void batch_norm_grad_stats(const Call& c) {
  const Groups g = Groups::channels(c.in[0]);
  std::vector<Wide> sums(g.groups), dots(g.groups);
  for (uint64_t i = 0; i < c.in[0].count(); ++i) {
    const uint64_t n = g.group(i);
    sums[n] += c.in[0].real(i);
    dots[n] += c.in[0].real(i) * (Wide(c.in[1].real(i)) - c.in[2].real(n)) * c.in[3].real(n);
  }
  for (uint64_t n = 0; n < g.groups; ++n) {
    if (c.gives(0)) c.out[0].set(n, sums[n]);
    if (c.gives(1)) c.out[1].set(n, dots[n]);
  }
}

void batch_norm_grad_apply(const Call& c) {
  const Groups g = Groups::channels(c.in[0]);
  const double count = c.in[7].real(0);
  for (uint64_t i = 0; i < c.in[0].count(); ++i) {
    const uint64_t n = g.group(i);
    const double hat = (c.in[1].real(i) - c.in[3].real(n)) * c.in[4].real(n);
    c.out[0].set(i, c.in[2].real(n) * c.in[4].real(n) *
                        (c.in[0].real(i) - c.in[5].real(n) / count - hat * c.in[6].real(n) / count));
  }
}

void layer_norm(const Call& c) { (void)forward(c, Groups::last(c.in[0], c.node.integer("axes"))); }

void layer_norm_grad(const Call& c) {
  backward(c, Groups::last(c.in[1], c.node.integer("axes")), &c.in[3], c.in[4]);
}

void rms_norm(const Call& c) {
  const Groups g = Groups::last(c.in[0], c.node.integer("axes"));
  const Moments m = moments_of(c.in[0], g);
  const auto inverse = [&](uint64_t n) { return inverse_root(m.square[n], c); };
  normalise(
      c, g, [](uint64_t) { return Wide(0); }, inverse);
  for (uint64_t n = 0; n < g.groups && c.gives(1); ++n) c.out[1].set(n, inverse(n));
}

void rms_norm_grad(const Call& c) {
  backward(c, Groups::last(c.in[1], c.node.integer("axes")), nullptr, c.in[3]);
}

}  // namespace

Routine normalisation(uint32_t op) {
  switch (op) {
    case TN_OP_batch_norm_train:
      return batch_norm_train;
    case TN_OP_batch_norm_infer:
      return batch_norm_infer;
    case TN_OP_batch_norm_grad:
      return batch_norm_grad;
    case TN_OP_batch_norm_stats:
      return batch_norm_stats;
    case TN_OP_batch_norm_apply:
      return batch_norm_apply;
    case TN_OP_batch_norm_grad_stats:
      return batch_norm_grad_stats;
    case TN_OP_batch_norm_grad_apply:
      return batch_norm_grad_apply;
    case TN_OP_layer_norm:
      return layer_norm;
    case TN_OP_layer_norm_grad:
      return layer_norm_grad;
    case TN_OP_rms_norm:
      return rms_norm;
    case TN_OP_rms_norm_grad:
      return rms_norm_grad;
    default:
      return nullptr;
  }
}

}  // namespace tenon::sim
