// SPDX-License-Identifier: Apache-2.0
// random_graph_draws.hpp: what the steps of a random graph draw from: choices, leaves with numbers, values made so far.
//
// Invariant: how large a value can get is known, and what could get too large is scaled down by a power of two.
#pragma once

#include "support/random_graph.hpp"

#include <map>
#include <random>
#include <set>
#include <vector>

namespace tenon::test {

class Draws {
 protected:
  using Value = Graph::Value;
  using Ints = Graph::Ints;

  explicit Draws(uint64_t seed) : random_(seed) {}

  // Choices.
  int between(int low, int high);
  bool chance(int in) { return between(1, in) == 1; }
  template <class T>
  const T& one_of(const std::vector<T>& all) {
    return all[static_cast<size_t>(between(0, static_cast<int>(all.size()) - 1))];
  }

  const Ints& dims(Value value) const { return g.spec(value).dims; }
  size_t rank(Value value) const { return dims(value).size(); }
  int axis_of(Value value) { return between(0, static_cast<int>(rank(value)) - 1); }
  double limit(Value value) const { return limits_.at(value.index); }

  // Leaves. Numbers are eighths, which every type of a constant holds.
  Value leaf(const TensorSpec& spec, const std::vector<double>& numbers, Graph::Role role);
  Value real(Ints shape, Graph::Role role);
  Value real(Ints shape);  // in any role
  Value weight(Ints shape) { return real(std::move(shape), Graph::Role::param); }
  Value filled(Ints shape, double number);
  Value index(Ints shape, int64_t below);
  Value seed() { return leaf({u64, {}}, {static_cast<double>(between(0, 1000))}, Graph::Role::input); }

  // A value that later steps may use, and how large it gets.
  Value keep(Value value, double limit);
  Value any() { return one_of(pool_); }
  // One of `least` to `most` dims, if need be a new one of `least`.
  Value any(size_t least, size_t most);
  Value image();
  // One of those made last.
  Value late();
  // Something that broadcasts with `value`.
  Value partner(Value value);

  // Makes an output of what was computed, once.
  void put(Value value);

  RandomGraph made_{};
  Graph& g = made_.graph;
  std::mt19937_64 random_;

 private:
  std::set<uint32_t> outputs_{};
  std::vector<Value> pool_{};
  std::map<uint32_t, double> limits_{};
};

}  // namespace tenon::test
