// SPDX-License-Identifier: Apache-2.0
// reference_norm.cpp: normalisations. Batch norm takes its statistics over all but dim 1, layer and RMS norm over the last
// dims; both are groups of elements with a mean and a spread, so one set of formulas serves.
#include "conformance/ops/reference.hpp"

namespace tenon::conform::reference {

namespace {

// Which group an element belongs to, which parameter scales it, and how many elements a group has.
struct Groups {
  uint64_t inner, groups, per_group;
  bool by_row;

  // Any of the dims may be 0.
  static Groups channels(const std::vector<int64_t>& dims) {
    const uint64_t c = product(dims, 1, 2), inner = product(dims, 2, dims.size());
    return {inner, c, product(dims, 0, 1) * inner, false};
  }
  static Groups rows(const Job& job) {
    const std::vector<int64_t>& dims = job.dims(0);
    const size_t first = dims.size() - static_cast<size_t>(job.trial.integer("axes"));
    const uint64_t length = product(dims, first, dims.size());
    return {length, product(dims, 0, first), length, true};
  }
  uint64_t group(uint64_t i) const { return by_row ? i / inner : i / inner % groups; }
  uint64_t parameter(uint64_t i) const { return by_row ? i % inner : group(i); }
  uint64_t parameters() const { return by_row ? inner : groups; }
  double count() const { return static_cast<double>(per_group); }

 private:
  static uint64_t product(const std::vector<int64_t>& dims, size_t first, size_t end) {
    uint64_t out = 1;
    for (size_t i = first; i < end; ++i) out *= static_cast<uint64_t>(dims[i]);
    return out;
  }
};

struct Moments {
  double mean = 0, variance = 0, square = 0, size = 0;  // square: mean of x²; size: mean of |x|
};

std::vector<Moments> moments_of(const Job& job, size_t x, const Groups& g) {
  std::vector<Sum> sums(g.groups), squares(g.groups), spreads(g.groups);
  for (uint64_t i = 0; i < job.in[x].at.size(); ++i) {
    sums[g.group(i)].add(job.real(x, i));
    squares[g.group(i)].add_product(job.real(x, i), job.real(x, i));
  }
  std::vector<Moments> out(g.groups);
  for (uint64_t n = 0; n < g.groups; ++n) {
    out[n].mean = sums[n].value() / g.count();
    out[n].square = squares[n].value() / g.count();
    out[n].size = sums[n].magnitude() / g.count();
  }
  for (uint64_t i = 0; i < job.in[x].at.size(); ++i) {
    const double away = job.real(x, i) - out[g.group(i)].mean;
    spreads[g.group(i)].add_product(away, away);
  }
  for (uint64_t n = 0; n < g.groups; ++n) out[n].variance = spreads[n].value() / g.count();
  return out;
}

void put(Job& job, size_t out, uint64_t i, double value, double terms) {
  job.out[out].tensor.at[i].real = value;
  job.out[out].magnitude[i] = terms;
}

// Makes room for all outputs' magnitudes; every output comes from sums of `length` terms.
void open(Job& job, double length) {
  for (size_t i = 0; i < job.out.size(); ++i) {
    magnitudes(job, i);
    job.out[i].length = length;
  }
}

// y = (x − mean) · inv_std · scale + bias. `loose` is how far inv_std may be off, in roundings: a variance computed as
// E[x²] − E[x]² loses as much as its terms are larger than itself.
void normalise(Job& job, uint64_t i, double mean, double size, double inv_std, double loose, double scale,
               double bias) {
  const double x = job.real(0, i), slope = std::fabs(inv_std * scale);
  put(job, 0, i, (x - mean) * inv_std * scale + bias,
      slope * (std::fabs(x) + size) + std::fabs(bias) + loose * slope * std::fabs(x - mean));
}

// dx and the parameters' gradients, from dy and x̂ = (x − mean)·inv_std. Without `centred` (RMS norm) no mean is taken out.
void backward(Job& job, const Groups& g, const std::vector<double>& mean, const std::vector<double>& inv,
              bool centred) {
  const size_t x = 1, scale = 2;
  const auto hat = [&](uint64_t i) { return (job.real(x, i) - mean[g.group(i)]) * inv[g.group(i)]; };
  const auto hat_size = [&](uint64_t i) {
    return (std::fabs(job.real(x, i)) + std::fabs(mean[g.group(i)])) * inv[g.group(i)];
  };
  std::vector<Sum> grads(g.groups), dots(g.groups), dscale(g.parameters()), dbias(g.parameters());
  std::vector<double> dot_size(g.groups), scale_size(g.parameters());
  for (uint64_t i = 0; i < job.in[x].at.size(); ++i) {
    const double dy = job.real(0, i), weighted = dy * job.real(scale, g.parameter(i));
    grads[g.group(i)].add(weighted);
    dots[g.group(i)].add_product(weighted, hat(i));
    dot_size[g.group(i)] += std::fabs(weighted) * hat_size(i);
    dscale[g.parameter(i)].add_product(dy, hat(i));
    scale_size[g.parameter(i)] += std::fabs(dy) * hat_size(i);
    dbias[g.parameter(i)].add(dy);
  }
  for (uint64_t i = 0; i < job.in[x].at.size(); ++i) {
    const uint64_t n = g.group(i);
    const double weighted = job.real(0, i) * job.real(scale, g.parameter(i));
    const double level = centred ? grads[n].value() / g.count() : 0;
    put(job, 0, i, inv[n] * (weighted - level - hat(i) * dots[n].value() / g.count()),
        inv[n] *
            (std::fabs(weighted) + grads[n].magnitude() / g.count() + hat_size(i) * dot_size[n] / g.count()));
  }
  for (uint64_t n = 0; n < g.parameters(); ++n) {
    put(job, 1, n, dscale[n].value(), scale_size[n]);
    if (centred) put(job, 2, n, dbias[n].value(), dbias[n].magnitude());
  }
}

std::vector<double> reals(const Job& job, size_t input) {
  std::vector<double> out;
  for (const Scalar& one : job.in[input].at) out.push_back(one.real);
  return out;
}

constexpr double usual_epsilon = 1e-5;  // where only the backward op is asked

void prepare_moments(Job& job, const Groups& g) {
  const std::vector<Moments> moments = moments_of(job, 1, g);
  for (uint64_t n = 0; n < g.groups; ++n) {
    job.in[3].at[n].real = moments[n].mean;
    job.in[4].at[n].real = 1 / std::sqrt(moments[n].variance + usual_epsilon);
  }
}

// Statistics and y of a forward norm: mean and inv_std are outputs 1 and 2.
std::vector<Moments> forward(Job& job, const Groups& g) {
  const double epsilon = job.trial.real("epsilon");
  std::vector<Moments> moments = moments_of(job, 0, g);
  open(job, g.count());
  for (uint64_t n = 0; n < g.groups; ++n) {
    const Moments& m = moments[n];
    const double inv_std = 1 / std::sqrt(m.variance + epsilon), loose = m.square / (m.variance + epsilon);
    put(job, 1, n, m.mean, m.size);
    put(job, 2, n, inv_std, inv_std * (1 + loose));
  }
  for (uint64_t i = 0; i < job.in[0].at.size(); ++i) {
    const Moments& m = moments[g.group(i)];
    const double inv_std = 1 / std::sqrt(m.variance + epsilon), loose = m.square / (m.variance + epsilon);
    normalise(job, i, m.mean, m.size, inv_std, loose, job.real(1, g.parameter(i)),
              job.real(2, g.parameter(i)));
  }
  return moments;
}

}  // namespace

void batch_norm_train(Job& job) {
  const Groups g = Groups::channels(job.dims(0));
  const std::vector<Moments> moments = forward(job, g);
  const double keep = job.trial.real("momentum"), unbiased = g.count() > 1 ? g.count() / (g.count() - 1) : 1;
  for (uint64_t n = 0; n < g.groups; ++n) {
    put(job, 3, n, keep * job.real(3, n) + (1 - keep) * moments[n].mean,
        std::fabs(keep * job.real(3, n)) + moments[n].size);
    put(job, 4, n, keep * job.real(4, n) + (1 - keep) * moments[n].variance * unbiased,
        std::fabs(keep * job.real(4, n)) + moments[n].square * unbiased);
  }
}

void batch_norm_infer(Job& job) {
  const Groups g = Groups::channels(job.dims(0));
  open(job, 1);
  for (uint64_t i = 0; i < job.in[0].at.size(); ++i) {
    const uint64_t c = g.group(i);
    const double inv_std = 1 / std::sqrt(job.real(4, c) + job.trial.real("epsilon"));
    normalise(job, i, job.real(3, c), std::fabs(job.real(3, c)), inv_std, 1, job.real(1, c), job.real(2, c));
  }
}

void batch_norm_apply(Job& job) {
  const Groups g = Groups::channels(job.dims(0));
  open(job, 1);
  for (uint64_t i = 0; i < job.in[0].at.size(); ++i) {
    const uint64_t c = g.group(i);
    normalise(job, i, job.real(3, c), std::fabs(job.real(3, c)), job.real(4, c), 1, job.real(1, c),
              job.real(2, c));
  }
}

void batch_norm_grad(Job& job) {
  const Groups g = Groups::channels(job.dims(0));
  open(job, g.count());
  backward(job, g, reals(job, 3), reals(job, 4), true);
}
void prepare_batch_norm_grad(Job& job) { prepare_moments(job, Groups::channels(job.dims(0))); }

void batch_norm_stats(Job& job) {
  const Groups g = Groups::channels(job.dims(0));
  open(job, g.count());
  std::vector<Sum> sums(g.groups), squares(g.groups);
  for (uint64_t i = 0; i < job.in[0].at.size(); ++i) {
    sums[g.group(i)].add(job.real(0, i));
    squares[g.group(i)].add_product(job.real(0, i), job.real(0, i));
  }
  for (uint64_t n = 0; n < g.groups; ++n) {
    put(job, 0, n, sums[n].value(), sums[n].magnitude());
    put(job, 1, n, squares[n].value(), squares[n].magnitude());
  }
}

void batch_norm_grad_stats(Job& job) {
  const Groups g = Groups::channels(job.dims(0));
  open(job, g.count());
  std::vector<Sum> sums(g.groups), dots(g.groups);
  std::vector<double> sizes(g.groups);
  for (uint64_t i = 0; i < job.in[0].at.size(); ++i) {
    const uint64_t c = g.group(i);
    const double dy = job.real(0, i), x = job.real(1, i), mean = job.real(2, c), inv_std = job.real(3, c);
    sums[c].add(dy);
    dots[c].add_product(dy, (x - mean) * inv_std);
    sizes[c] += std::fabs(dy) * (std::fabs(x) + std::fabs(mean)) * inv_std;
  }
  for (uint64_t n = 0; n < g.groups; ++n) {
    put(job, 0, n, sums[n].value(), sums[n].magnitude());
    put(job, 1, n, dots[n].value(), sizes[n]);
  }
}

void batch_norm_grad_apply(Job& job) {
  const Groups g = Groups::channels(job.dims(0));
  open(job, 1);
  const double count = job.real(7, 0);
  for (uint64_t i = 0; i < job.in[0].at.size(); ++i) {
    const uint64_t c = g.group(i);
    const double dy = job.real(0, i), x = job.real(1, i), mean = job.real(3, c), inv_std = job.real(4, c),
                 sum = job.real(5, c) / count, dot = job.real(6, c) / count, slope = job.real(2, c) * inv_std;
    put(job, 0, i, slope * (dy - sum - (x - mean) * inv_std * dot),
        std::fabs(slope) *
            (std::fabs(dy) + std::fabs(sum) + (std::fabs(x) + std::fabs(mean)) * inv_std * std::fabs(dot)));
  }
}

void layer_norm(Job& job) { static_cast<void>(forward(job, Groups::rows(job))); }

void layer_norm_grad(Job& job) {
  const Groups g = Groups::rows(job);
  open(job, static_cast<double>(job.in[0].at.size()));
  backward(job, g, reals(job, 3), reals(job, 4), true);
}
void prepare_layer_norm_grad(Job& job) { prepare_moments(job, Groups::rows(job)); }

void rms_norm(Job& job) {
  const Groups g = Groups::rows(job);
  const std::vector<Moments> moments = moments_of(job, 0, g);
  open(job, g.count());
  for (uint64_t i = 0; i < job.in[0].at.size(); ++i) {
    const uint64_t n = g.group(i);
    const double inv_rms = 1 / std::sqrt(moments[n].square + job.trial.real("epsilon"));
    normalise(job, i, 0, 0, inv_rms, 1, job.real(1, g.parameter(i)), 0);
    put(job, 1, n, inv_rms, 2 * inv_rms);
  }
}

void rms_norm_grad(Job& job) {
  const Groups g = Groups::rows(job);
  open(job, static_cast<double>(job.in[0].at.size()));
  backward(job, g, std::vector<double>(g.groups, 0), reals(job, 3), false);
}
void prepare_rms_norm_grad(Job& job) {
  const Groups g = Groups::rows(job);
  const std::vector<Moments> moments = moments_of(job, 1, g);
  for (uint64_t n = 0; n < g.groups; ++n)
    job.in[3].at[n].real = 1 / std::sqrt(moments[n].square + usual_epsilon);
}

}  // namespace tenon::conform::reference
