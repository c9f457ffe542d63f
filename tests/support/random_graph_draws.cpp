// SPDX-License-Identifier: Apache-2.0
// random_graph_draws.cpp: see random_graph_draws.hpp.
#include "support/random_graph_draws.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace tenon::test {
namespace {

using Dims = std::vector<int64_t>;

// By numpy's rules, and into something small.
bool broadcasts(const Dims& a, const Dims& b) {
  uint64_t elements = 1;
  for (size_t i = 1; i <= std::max(a.size(), b.size()); ++i) {
    const int64_t x = i > a.size() ? 1 : a[a.size() - i], y = i > b.size() ? 1 : b[b.size() - i];
    if (x != y && x != 1 && y != 1) return false;
    elements *= static_cast<uint64_t>(std::max(x, y));
  }
  return elements <= 256;
}

}  // namespace

int Draws::between(int low, int high) {
  return low + static_cast<int>(random_() % static_cast<uint64_t>(high - low + 1));
}

GraphValue Draws::leaf(const TensorSpec& spec, const std::vector<double>& numbers, Graph::Role role) {
  const bool input = role == Graph::Role::input, param = role == Graph::Role::param;
  const std::string name = (input ? "i" : param ? "p" : "c") + std::to_string(made_.leaves.size());
  made_.leaves.emplace(name, tensor_of(spec, numbers));
  if (input) return g.input(name, spec);
  if (param) return g.param(name, spec);
  std::vector<std::byte> bytes(spec.bytes());
  for (size_t i = 0; i < numbers.size(); ++i) {
    const auto number = static_cast<float>(numbers[i]);
    std::memcpy(bytes.data() + i * sizeof number, &number, sizeof number);
  }
  return g.constant(name, spec, bytes);
}

GraphValue Draws::real(Ints shape, Graph::Role role) {
  const TensorSpec spec{f32, std::move(shape)};
  std::vector<double> numbers(spec.elements());
  for (double& number : numbers) number = between(-12, 12) / 8.0;
  return keep(leaf(spec, numbers, role), 1.5);
}

GraphValue Draws::real(Ints shape) {
  const int role = between(0, 5);
  return real(std::move(shape), role == 0  ? Graph::Role::constant
                                : role < 3 ? Graph::Role::input
                                           : Graph::Role::param);
}

GraphValue Draws::filled(Ints shape, double number) {
  const TensorSpec spec{f32, std::move(shape)};
  return leaf(spec, std::vector<double>(spec.elements(), number), Graph::Role::param);
}

GraphValue Draws::index(Ints shape, int64_t below) {
  const TensorSpec spec{i64, std::move(shape)};
  std::vector<double> numbers(spec.elements());
  for (double& number : numbers) number = between(0, static_cast<int>(below) - 1);
  return leaf(spec, numbers, Graph::Role::input);
}

GraphValue Draws::keep(Value value, double limit) {
  if (limit > 64) {
    const double down = std::exp2(-std::ceil(std::log2(limit)));
    value = g.scale(value, down);
    limit = 1;
  }
  limits_[value.index] = limit;
  if (g.spec(value).elements() <= 256) pool_.push_back(value);
  return value;
}

GraphValue Draws::any(size_t least, size_t most) {
  for (int i = 0; i < 6; ++i) {
    const Value value = any();
    if (rank(value) >= least && rank(value) <= most) return value;
  }
  Ints shape;
  for (size_t i = 0; i < least; ++i) shape.push_back(between(1, 4));
  return real(std::move(shape));
}

GraphValue Draws::image() {
  const Value value = any(4, 4);
  return dims(value)[2] >= 2 && dims(value)[3] >= 2 ? value : real({1, between(1, 4), 3, 3});
}

GraphValue Draws::partner(Value value) {
  if (chance(5)) return keep(g.constant({f32, {}}, between(-6, 6) / 4.0), 1.5);
  for (int i = 0; i < 5; ++i) {
    const Value other = any();
    if (broadcasts(dims(value), dims(other))) return other;
  }
  Ints shape = dims(value);
  shape.erase(shape.begin(), shape.begin() + between(0, static_cast<int>(shape.size())));
  for (int64_t& dim : shape) dim = chance(3) ? 1 : dim;
  return real(std::move(shape));
}

void Draws::put(Value value) {
  if (value.index == TN_ABSENT || g.values()[value.index].role != Graph::Role::computed) return;
  if (outputs_.insert(value.index).second) g.output("out" + std::to_string(outputs_.size()), value);
}

GraphValue Draws::late() {
  const auto back = static_cast<size_t>(between(1, static_cast<int>(pool_.size() + 1) / 2));
  return pool_[pool_.size() - back];
}

}  // namespace tenon::test
