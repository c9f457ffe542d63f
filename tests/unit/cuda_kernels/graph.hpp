// SPDX-License-Identifier: Apache-2.0
// graph.hpp: random graphs of small ops, as one fragment or as one fragment a node.
//
// Invariant: a graph is legal by ops.def, and its results do not depend on the order in which a reduction adds: reductions
// are drawn over integers alone.
#pragma once

#include "written.hpp"

#include <functional>
#include <random>
#include <string>
#include <vector>

namespace kernels_test {

using Dims = std::vector<int64_t>;

struct GraphTensor {
  enum class Role { input, inner, output };
  uint32_t dtype = TN_DTYPE_i32;
  Dims dims{}, strides{};
  Role role = Role::inner;

  uint64_t extent() const;  // in elements, gaps included
  uint64_t bytes() const { return extent() * tenon::author::dtype_bits(dtype) / 8; }
};

struct GraphNode {
  uint32_t op = 0;
  std::vector<size_t> inputs{};
  size_t output = 0;
  std::function<void(FragmentBuilder::Node&)> attributes{};
};

// A program, and which tensors of the graph its bindings are.
struct Bound {
  Program program{};
  std::vector<size_t> tensors{};
};

class Graph {
 public:
  // Over i32 with reductions, or over a float type without.
  Graph(std::mt19937_64& random, bool integers);

  const std::vector<GraphTensor>& tensors() const { return tensors_; }
  Bound fused(const Target& target) const;
  std::vector<Bound> apart() const;
  // "add(t0[2,3], t1[3]) -> t2[2,3]; …"
  std::string told() const;

 private:
  size_t below(size_t bound) { return static_cast<size_t>((*random_)() % bound); }
  void draw_inputs(uint32_t dtype);
  void draw_node(bool integers);
  void draw_binary(GraphNode& node, GraphTensor& made);
  void draw_reshape(GraphNode& node, GraphTensor& made);
  void draw_transpose(GraphNode& node, GraphTensor& made);
  void draw_slice(GraphNode& node, GraphTensor& made);
  void draw_pad(GraphNode& node, GraphTensor& made);
  void draw_concat(GraphNode& node, GraphTensor& made);
  void draw_reduction(GraphNode& node, GraphTensor& made);
  std::vector<size_t> shuffled(size_t count);

  std::mt19937_64* random_;
  std::vector<GraphTensor> tensors_{};
  std::vector<GraphNode> nodes_{};
};

}  // namespace kernels_test
