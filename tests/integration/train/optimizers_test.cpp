// SPDX-License-Identifier: Apache-2.0
// Every optimizer does on a device what it does by hand, with decay, with a limit of the norm, and with changing rates.
#include "integration/device.hpp"
#include "integration/train/model.hpp"

#include <doctest/doctest.h>

using namespace train_test;
using tenon::test::must;

namespace {

constexpr int64_t rows = 8;

struct Case {
  const char* name;
  Optimizer optimizer;
  double clip_norm = 0;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"sgd", {.op = Op::sgd, .rate = 0.1}},
      {"sgd with decay, not of b",
       {.op = Op::sgd, .rate = 0.1, .attributes = {{"weight_decay", 0.05}}, .no_decay = {"b*"}}},
      {"sgd, clipped", {.op = Op::sgd, .rate = 0.1}, 0.25},
      {"momentum", {.op = Op::momentum, .rate = 0.05}},
      {"nesterov with decay",
       {.op = Op::momentum,
        .rate = 0.05,
        .attributes = {{"momentum", 0.8}, {"nesterov", int64_t{1}}, {"weight_decay", 0.01}}}},
      {"adam", {.op = Op::adam, .rate = 0.02}},
      {"adam with decay, clipped",
       {.op = Op::adam, .rate = 0.02, .attributes = {{"weight_decay", 0.1}}},
       0.5},
      {"adamw", {.op = Op::adamw, .rate = 0.02, .attributes = {{"beta1", 0.8}, {"weight_decay", 0.1}}}},
  };
  return all;
}

// The same by hand, in double.
class ByHand {
 public:
  ByHand(const Case& what, Doubles start) : what_(what), p_(std::move(start)), m_(p_.size()), v_(p_.size()) {}

  void step(const Samples& given, double rate) {
    Doubles g = gradient(p_, given);
    double norm = 0;
    for (const double x : g) norm += x * x;
    norm = std::sqrt(norm);
    if (what_.clip_norm > 0) {
      for (double& x : g) x *= what_.clip_norm / std::max(norm, what_.clip_norm);
    }
    ++steps_;
    for (size_t i = 0; i < p_.size(); ++i) update(i, g[i], rate);
  }
  const Doubles& parameters() const { return p_; }

 private:
  double of(const char* attribute, double otherwise) const {
    for (const Attribute& a : what_.optimizer.attributes) {
      if (a.name != attribute) continue;
      if (const double* const number = std::get_if<double>(&a.value)) return *number;
      return static_cast<double>(std::get<int64_t>(a.value));
    }
    return otherwise;
  }

  void update(size_t i, double g, double rate) {
    const Op op = what_.optimizer.op;
    const bool is_b = i == width, decays = !(is_b && !what_.optimizer.no_decay.empty());
    const double decay = decays ? of("weight_decay", op == Op::adamw ? 0.01 : 0) : 0;
    if (op != Op::adamw) g += decay * p_[i];
    if (op == Op::sgd) {
      p_[i] -= rate * g;
    } else if (op == Op::momentum) {
      const double momentum = of("momentum", 0.9);
      m_[i] = momentum * m_[i] + g;
      p_[i] -= rate * (of("nesterov", 0) != 0 ? g + momentum * m_[i] : m_[i]);
    } else {
      const double b1 = of("beta1", 0.9), b2 = of("beta2", 0.999);
      if (op == Op::adamw) p_[i] -= rate * decay * p_[i];
      m_[i] = b1 * m_[i] + (1 - b1) * g;
      v_[i] = b2 * v_[i] + (1 - b2) * g * g;
      const double m = m_[i] / (1 - std::pow(b1, steps_)), v = v_[i] / (1 - std::pow(b2, steps_));
      p_[i] -= rate * m / (std::sqrt(v) + of("epsilon", 1e-8));
    }
  }

  const Case& what_;
  Doubles p_, m_, v_;
  double steps_ = 0;
};

}  // namespace

TEST_CASE("optimizers: each does what it does by hand") {
  Runtime runtime = tenon::test::open();
  Device device = tenon::test::target(runtime);
  for (const Case& what : cases()) {
    CAPTURE(what.name);
    const TrainingGraph step = must(
        training_graph(regression(rows), "loss", {.optimizer = what.optimizer, .clip_norm = what.clip_norm}));
    Executor executor = must(Executor::open(step, device));
    const Floats w(width, 0.5f), b(1, -0.25f);
    must(executor.set("w", bytes_of(w)));
    must(executor.set("b", bytes_of(b)));
    Doubles start(width, 0.5);
    start.push_back(-0.25);
    ByHand by_hand(what, start);
    for (uint64_t i = 0; i < 6; ++i) {
      const Samples given = samples(rows, i);
      const double rate = i < 3 ? what.optimizer.rate : what.optimizer.rate / 4;
      if (i == 3) must(executor.set_rate(rate));
      must(executor.run({fed("x", given.x), fed("y", given.y)}));
      by_hand.step(given, rate);
    }
    Floats found = as<float>(must(executor.get("w")));
    found.push_back(as<float>(must(executor.get("b"))).front());
    for (size_t i = 0; i < found.size(); ++i)
      CHECK(static_cast<double>(found[i]) == doctest::Approx(by_hand.parameters()[i]).epsilon(1e-4));
  }
}
