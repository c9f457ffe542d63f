// SPDX-License-Identifier: Apache-2.0
// reference_update.cpp: optimizers and loss scaling. A master weight, where there is one, is what is updated, and the
// weight is it rounded.
#include "conformance/ops/reference.hpp"

#include <algorithm>

namespace tenon::conform::reference {

namespace {

// One parameter's update: w, g, `states` of it, the rate, a step where `stepped`, then [master, found_inf, inv_scale].
struct Update {
  Job& job;
  size_t rate, master;

  Update(Job& asked, size_t states, bool stepped)
      : job(asked), rate(2 + states), master(3 + states + (stepped ? 1 : 0)) {
    for (size_t i = 0; i < job.out.size(); ++i) magnitudes(job, i);
  }
  uint64_t size() const { return job.in[0].at.size(); }
  bool frozen() const { return job.has(master + 1) && job.real(master + 1, 0) != 0; }
  double lr() const { return job.real(rate, 0); }
  double weight(uint64_t i) const { return job.real(job.has(master) ? master : 0, i); }
  double gradient(uint64_t i) const {
    return job.real(1, i) * (job.has(master + 2) ? job.real(master + 2, 0) : 1);
  }
  void put(size_t out, uint64_t i, double value, double terms) {
    if (job.out[out].tensor.at.empty()) return;  // absent
    job.out[out].tensor.at[i].real = value;
    job.out[out].magnitude[i] = terms;
  }
};

// AdamW where `decoupled`: decay is applied to the weight, not to the gradient.
void adam_like(Job& job, bool decoupled) {
  Update u(job, 2, true);
  const double b1 = job.trial.real("beta1"), b2 = job.trial.real("beta2"),
               epsilon = job.trial.real("epsilon"), decay = job.trial.real("weight_decay"),
               step = job.real(u.rate + 1, 0);
  for (uint64_t i = 0; i < u.size(); ++i) {
    const double w = u.weight(i), old_m = job.real(2, i), old_v = job.real(3, i);
    if (u.frozen()) {
      u.put(0, i, w, 0);
      u.put(1, i, old_m, 0);
      u.put(2, i, old_v, 0);
      u.put(3, i, w, 0);
      continue;
    }
    const double g = u.gradient(i) + (decoupled ? 0 : decay * w);
    const double g_size = std::fabs(u.gradient(i)) + (decoupled ? 0 : std::fabs(decay * w));
    const double m = b1 * old_m + (1 - b1) * g, m_size = std::fabs(b1 * old_m) + (1 - b1) * g_size;
    const double v = b2 * old_v + (1 - b2) * g * g, v_size = b2 * old_v + (1 - b2) * g_size * g_size;
    // 1 − βᵗ cancels for a β near 1.
    const double c1 = 1 - std::pow(b1, step), c2 = 1 - std::pow(b2, step);
    const double root = std::sqrt(v / c2) + epsilon, move = u.lr() / c1 / root;
    const double kept = decoupled ? w - u.lr() * decay * w : w;
    const double size = std::fabs(w) * (1 + u.lr() * decay) +
                        std::fabs(move) * m_size * (1 + 1 / c1 + 1 / c2) * (1 + v_size / (v + 1e-300));
    u.put(0, i, kept - move * m, size);
    u.put(1, i, m, m_size);
    u.put(2, i, v, v_size);
    u.put(3, i, kept - move * m, size);
  }
}

}  // namespace

void sgd(Job& job) {
  Update u(job, 0, false);
  const double decay = job.trial.real("weight_decay");
  for (uint64_t i = 0; i < u.size(); ++i) {
    const double w = u.weight(i), g = u.frozen() ? job.real(1, i) : u.gradient(i) + decay * w;
    const double g_size = u.frozen() ? 0 : std::fabs(u.gradient(i)) + std::fabs(decay * w);
    const double next = u.frozen() ? w : w - u.lr() * g, size = std::fabs(w) + u.lr() * g_size;
    u.put(0, i, next, size);
    u.put(1, i, next, size);
    u.put(2, i, g, g_size);
  }
}

void momentum(Job& job) {
  Update u(job, 1, false);
  const double decay = job.trial.real("weight_decay"), keep = job.trial.real("momentum");
  const bool nesterov = job.trial.integer("nesterov") != 0;
  for (uint64_t i = 0; i < u.size(); ++i) {
    const double w = u.weight(i), old = job.real(2, i), g = u.gradient(i) + decay * w;
    const double g_size = std::fabs(u.gradient(i)) + std::fabs(decay * w);
    const double velocity = u.frozen() ? old : keep * old + g;
    const double v_size = std::fabs(keep * old) + g_size;
    const double next = u.frozen() ? w : w - u.lr() * (nesterov ? g + keep * velocity : velocity);
    const double size = std::fabs(w) + u.lr() * (g_size + v_size);
    u.put(0, i, next, size);
    u.put(1, i, velocity, v_size);
    u.put(2, i, next, size);
  }
}

void adam(Job& job) { adam_like(job, false); }
void adamw(Job& job) { adam_like(job, true); }

void check_finite_and_unscale(Job& job) {
  const double scale = job.real(0, 0);
  double found = 0;
  for (size_t n = 1; n < job.in.size(); ++n) {
    std::vector<double>& magnitude = magnitudes(job, n);
    for (uint64_t i = 0; i < job.in[n].at.size(); ++i) {
      const double g = job.real(n, i);
      found = std::isfinite(g) ? found : 1;
      job.out[n].tensor.at[i].real = g / scale;
      magnitude[i] = std::isfinite(g) ? std::fabs(g / scale) : 0;
    }
  }
  job.out[0].tensor.at[0].real = found;
}

void update_loss_scaling(Job& job) {
  double scale = job.real(1, 0), good = job.real(2, 0), bad = job.real(3, 0);
  const auto due = [&](double count, const char* after) {
    return count >= static_cast<double>(job.trial.integer(after));
  };
  if (job.real(0, 0) != 0) {
    good = 0;
    if (due(++bad, "decr_every_n_nan_or_inf")) {
      scale = std::max(1.0, rounded(format_of(TN_DTYPE_f32), scale * job.trial.real("decr_ratio")));
      bad = 0;
    }
  } else {
    bad = 0;
    if (due(++good, "incr_every_n_steps")) {
      const double grown = rounded(format_of(TN_DTYPE_f32), scale * job.trial.real("incr_ratio"));
      scale = std::isfinite(grown) ? grown : scale;
      good = 0;
    }
  }
  const double all[] = {scale, good, bad};
  for (size_t i = 0; i < 3; ++i) job.out[i].tensor.at[0].real = all[i];
}

}  // namespace tenon::conform::reference
