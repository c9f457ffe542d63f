// SPDX-License-Identifier: Apache-2.0
// attention_values.hpp: a graph as seen from its values, for those who look for attention in it.
//
// Invariant: a number that a constant has is the one that its type holds.
#pragma once

#include <tenon/graph.hpp>

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tenon::passes {

// What hides a score puts at most this in its place or adds it, and at most a thousandth when it has been scaled.
inline constexpr double hides = -1e9;

// All of it: [any-thread; does not block; cannot fail]
class Values {
 public:
  explicit Values(const Graph& graph);

  const Graph::Node& node(uint32_t index) const { return g_.nodes()[index]; }
  const std::vector<int64_t>& dims(uint32_t value) const { return g_.values()[value].spec.dims; }
  DType dtype(uint32_t value) const { return g_.values()[value].spec.dtype; }
  const std::vector<uint32_t>& users(uint32_t value) const { return g_.values()[value].users; }
  bool is_output(uint32_t value) const { return is_output_[value]; }
  std::string quoted(uint32_t value) const;
  // "tanh 'bent'"
  std::string told(uint32_t node) const;

  // The node that makes it, or TN_ABSENT.
  uint32_t maker(uint32_t value) const { return g_.values()[value].producer; }
  bool is_made_by(uint32_t value, Op op) const {
    return maker(value) != TN_ABSENT && node(maker(value)).op == op;
  }
  // What a cast between floats was made of, or the value itself.
  uint32_t before_cast(uint32_t value) const;
  // The same float everywhere.
  std::optional<double> number(uint32_t value) const;
  // A matmul that turns these operands.
  bool is_product(uint32_t node, bool turns_a, bool turns_b) const;
  bool flag(uint32_t node, const char* name) const;
  // Whether attribute `axis` of a softmax or its gradient is the last one.
  bool is_last_axis(uint32_t node) const;

  // Whether `type` holds every number that a mask can have, what hides as something that hides, too.
  bool is_exact_in(uint32_t mask, DType type) const;

  // Which of these is neither of `type`, nor the f32 in which a half is computed, in words; "" when all are.
  std::string why_rounded(std::span<const uint32_t> values, DType type) const;

  // An elementwise node that multiplies a value by a number.
  struct Scaling {
    uint32_t of = TN_ABSENT;
    double by = 1;
  };
  std::optional<Scaling> scaling(uint32_t node) const;

 private:
  const Graph& g_;
  std::vector<bool> is_output_;
};

}  // namespace tenon::passes
