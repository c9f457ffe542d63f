// SPDX-License-Identifier: Apache-2.0
// update.cpp: optimizers and loss scaling. Where there is a master weight it is what is updated, and the weight is it,
// rounded. Outputs may stand in the places of their inputs: an element is read whole before it is written.
#include "node.hpp"

#include <algorithm>
#include <cmath>

namespace tenon::sim {

namespace {

// One parameter's update: w, g, `states` of it, the rate, a step where `stepped`, then [master, found_inf, inv_scale].
struct Update {
  const Call& c;
  size_t rate, master;

  Update(const Call& call, size_t states, bool stepped)
      : c(call), rate(2 + states), master(3 + states + (stepped ? 1 : 0)) {}
  uint64_t count() const { return c.in[0].count(); }
  bool frozen() const { return c.has(master + 1) && c.in[master + 1].number(0) != 0; }
  double lr() const { return c.in[rate].real(0); }
  double step() const { return c.in[rate + 1].number(0); }
  double weight(uint64_t i) const { return c.in[c.has(master) ? master : 0].real(i); }
  double gradient(uint64_t i) const {
    return c.in[1].real(i) * (c.has(master + 2) ? c.in[master + 2].real(0) : 1);
  }
  double decay() const { return c.node.real("weight_decay"); }
  void put(size_t out, uint64_t i, double value) const {
    if (c.gives(out)) c.out[out].set(i, value);
  }
};

void sgd(const Call& c) {
  const Update u(c, 0, false);
  const bool frozen = u.frozen();
  for (uint64_t i = 0; i < u.count(); ++i) {
    const double w = u.weight(i), g = frozen ? c.in[1].real(i) : u.gradient(i) + u.decay() * w;
    const double next = frozen ? w : w - u.lr() * g;
    u.put(0, i, next);
    u.put(1, i, next);
    u.put(2, i, g);
  }
}

void momentum(const Call& c) {
  const Update u(c, 1, false);
  const bool frozen = u.frozen(), nesterov = c.node.integer("nesterov") != 0;
  const double keep = c.node.real("momentum");
  for (uint64_t i = 0; i < u.count(); ++i) {
    const double w = u.weight(i), g = u.gradient(i) + u.decay() * w, old = c.in[2].real(i);
    const double velocity = frozen ? old : keep * old + g;
    const double next = frozen ? w : w - u.lr() * (nesterov ? g + keep * velocity : velocity);
    u.put(0, i, next);
    u.put(1, i, velocity);
    u.put(2, i, next);
  }
}

void adam(const Call& c) {
  const Update u(c, 2, true);
  const bool frozen = u.frozen(), decoupled = c.node.op == TN_OP_adamw;
  const double b1 = c.node.real("beta1"), b2 = c.node.real("beta2"), epsilon = c.node.real("epsilon");
  const double c1 = 1 - std::pow(b1, u.step()), c2 = 1 - std::pow(b2, u.step());
  for (uint64_t i = 0; i < u.count(); ++i) {
    const double w = u.weight(i), g = u.gradient(i) + (decoupled ? 0 : u.decay() * w);
    const double m = b1 * c.in[2].real(i) + (1 - b1) * g, v = b2 * c.in[3].real(i) + (1 - b2) * g * g;
    const double kept = decoupled ? w - u.lr() * u.decay() * w : w;
    const double next = kept - u.lr() / c1 / (std::sqrt(v / c2) + epsilon) * m;
    u.put(1, i, frozen ? c.in[2].real(i) : m);
    u.put(2, i, frozen ? c.in[3].real(i) : v);
    u.put(0, i, frozen ? w : next);
    u.put(3, i, frozen ? w : next);
  }
}

void unscale(const Call& c) {
  const double scale = c.in[0].real(0);
  bool found = false;
  for (size_t n = 1; n < c.in.size(); ++n) {
    for (uint64_t i = 0; i < c.in[n].count(); ++i) {
      found = found || !std::isfinite(c.in[n].real(i));
      if (c.gives(n)) c.out[n].set(i, c.in[n].real(i) / scale);
    }
  }
  if (c.gives(0)) c.out[0].set_number(0, found ? 1 : 0);
}

void loss_scaling(const Call& c) {
  double scale = c.in[1].number(0), good = c.in[2].number(0), bad = c.in[3].number(0);
  const bool found = c.in[0].number(0) != 0;
  double &hit = found ? bad : good, &other = found ? good : bad;
  const char* const after = found ? "decr_every_n_nan_or_inf" : "incr_every_n_steps";
  other = 0;
  if (++hit >= static_cast<double>(c.node.integer(after))) {
    const double next = scale * c.node.real(found ? "decr_ratio" : "incr_ratio");
    if (std::isfinite(static_cast<float>(next))) scale = found ? std::max(next, 1.0) : next;
    hit = 0;
  }
  const double all[] = {scale, good, bad};
  for (size_t i = 0; i < 3; ++i) {
    if (c.gives(i)) c.out[i].set_number(0, all[i]);
  }
}

}  // namespace

Routine update(uint32_t op) {
  switch (op) {
    case TN_OP_sgd:
      return sgd;
    case TN_OP_momentum:
      return momentum;
    case TN_OP_adam:
    case TN_OP_adamw:
      return adam;
    case TN_OP_check_finite_and_unscale:
      return unscale;
    case TN_OP_update_loss_scaling:
      return loss_scaling;
    default:
      return nullptr;
  }
}

}  // namespace tenon::sim
