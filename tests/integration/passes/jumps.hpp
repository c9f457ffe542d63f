// SPDX-License-Identifier: Apache-2.0
// jumps.hpp: ops whose results jump, and whether a rounding may decide which way one goes.
//
// Invariant: a jump is decided where what it looks at is made without a rounding on any device, or lies farther from the edge than
// twice what a device may be off.
#pragma once

#include "support/interpreter.hpp"

#include "conformance/ops/row.hpp"

#include <tenon/graph.hpp>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

namespace tenon::test {

class Jumps {
 public:
  // The values of the graph as the interpreter computes them, without roundings and with them.
  Jumps(const Graph& graph, const Tensors& exact, const Tensors& rounded) : g_(graph), exact_(exact) {
    for (uint32_t i = 0; i < graph.values().size(); ++i)
      is_sure_.push_back(graph.values()[i].role != Graph::Role::computed && has_few_digits(i));
    for (const Graph::Node& node : graph.nodes()) {
      const bool keeps = std::all_of(node.inputs.begin(), node.inputs.end(),
                                     [&](uint32_t value) { return is_sure(value); }) &&
                         keeps_sure(node);
      for (const uint32_t value : node.outputs)
        if (value != TN_ABSENT) is_sure_[value] = keeps && same(exact.at(value), rounded.at(value));
    }
  }

  static bool any(const Graph& graph) {
    return std::any_of(graph.nodes().begin(), graph.nodes().end(),
                       [&](const Graph::Node& node) { return jumps(graph, node); });
  }
  // `limit` is how far a device may be off, for a value by its number.
  template <class Limit>
  bool all_decided(const Limit& limit) const {
    return std::all_of(g_.nodes().begin(), g_.nodes().end(),
                       [&](const Graph::Node& node) { return !jumps(g_, node) || is_decided(node, limit); });
  }

 private:
  static bool is_float(DType dtype) { return dtype >= f16 && dtype <= f64; }
  static DType dtype_of(const Graph& graph, uint32_t value) { return graph.values()[value].spec.dtype; }
  static bool jumps(const Graph& graph, const Graph::Node& node) {
    static const std::set<Op> jumping = {Op::floor,   Op::sign,          Op::argmax,    Op::mod,
                                         Op::equal,   Op::not_equal,     Op::less,      Op::less_equal,
                                         Op::greater, Op::greater_equal, Op::relu_grad, Op::max_pool_grad};
    if (node.op == Op::cast)
      return is_float(dtype_of(graph, node.inputs[0])) && !is_float(dtype_of(graph, node.outputs[0]));
    return jumping.contains(node.op);
  }

  // Whether what the node gives of sure inputs is sure where no rounding is seen in it: in a sum none may be hidden, either.
  bool keeps_sure(const Graph::Node& node) const {
    static const std::set<Op> sums = {Op::sum, Op::matmul, Op::conv2d, Op::conv2d_grad_data,
                                      Op::conv2d_grad_weight};
    const conform::Tolerance tolerance = conform::find_row(static_cast<uint32_t>(node.op))->tolerance;
    if (tolerance == conform::Tolerance::EXACT || tolerance == conform::Tolerance::ROUND) return true;
    return sums.contains(node.op) && std::all_of(node.inputs.begin(), node.inputs.end(), [&](uint32_t value) {
             return value == TN_ABSENT || has_few_digits(value);
           });
  }
  bool has_few_digits(uint32_t value) const {
    const auto& at = exact_.at(value).at;
    return !is_float(dtype_of(g_, value)) ||
           std::all_of(at.begin(), at.end(), [](const conform::Scalar& one) {
             return std::fabs(one.real) <= 8 && one.real * 16 == std::round(one.real * 16);
           });
  }
  bool is_sure(uint32_t value) const { return value == TN_ABSENT || is_sure_[value]; }
  static bool same(const conform::Tensor& a, const conform::Tensor& b) {
    return std::equal(a.at.begin(), a.at.end(), b.at.begin(),
                      [](const conform::Scalar& x, const conform::Scalar& y) {
                        return x.real == y.real && x.whole == y.whole;
                      });
  }

  // Past what moves or rounds a value without changing on which side of 0 it lies, which relu does, too.
  uint32_t origin(uint32_t value) const {
    static const std::set<Op> passing = {Op::relu, Op::cast, Op::reshape, Op::transpose, Op::convert_layout};
    for (uint32_t maker = g_.values()[value].producer;
         maker != TN_ABSENT && passing.contains(g_.nodes()[maker].op); maker = g_.values()[value].producer)
      value = g_.nodes()[maker].inputs[0];
    return value;
  }

  template <class Limit>
  bool is_decided(const Graph::Node& node, const Limit& limit) const {
    const uint32_t first = node.inputs[0], last = node.inputs.back();
    switch (node.op) {
      case Op::cast:
      case Op::floor:
        return is_clear(first, limit, [](double x) { return std::fabs(x - std::round(x)); });
      case Op::sign:
        return is_clear(first, limit, [](double x) { return std::fabs(x); });
      case Op::relu_grad:
        return is_sure(last) || is_clear(origin(last), limit, [](double x) { return std::fabs(x); });
      case Op::argmax:
      case Op::max_pool_grad:
        return is_sure(last) || are_apart(last, last, limit);
      case Op::mod:
        return is_sure(first) && is_sure(last);
      default:
        return (is_sure(first) && is_sure(last)) || are_apart(first, last, limit);
    }
  }
  template <class Limit, class Distance>
  bool is_clear(uint32_t value, const Limit& limit, const Distance& distance) const {
    if (is_sure(value)) return true;
    const auto& at = exact_.at(value).at;
    const double room = 2 * limit(value);
    return std::none_of(at.begin(), at.end(),
                        [&](const conform::Scalar& one) { return distance(one.real) <= room; });
  }
  // Any two of them, whichever are compared.
  template <class Limit>
  bool are_apart(uint32_t a, uint32_t b, const Limit& limit) const {
    if (!is_float(dtype_of(g_, a))) return is_sure(a) && is_sure(b);
    const auto &x = exact_.at(a).at, &y = exact_.at(b).at;
    const double room = 2 * (limit(a) + limit(b));
    for (size_t i = 0; i < x.size(); ++i) {
      for (size_t k = 0; k < y.size(); ++k) {
        if ((a != b || i != k) && std::fabs(x[i].real - y[k].real) <= room) return false;
      }
    }
    return true;
  }

  const Graph& g_;
  const Tensors& exact_;
  std::vector<bool> is_sure_{};  // by value
};

}  // namespace tenon::test
