// SPDX-License-Identifier: Apache-2.0
// graph.cpp: random graphs of small ops.
#include "graph.hpp"

#include <tenon/author/text.hpp>

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

namespace kernels_test {

using tenon::author::text;

namespace {

constexpr int64_t most_elements = 20000;

int64_t product(const Dims& dims) {
  return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
}

// What numpy makes of both, or nothing.
std::optional<Dims> joint(const Dims& a, const Dims& b) {
  Dims out(std::max(a.size(), b.size()), 1);
  for (size_t i = 1; i <= out.size(); ++i) {
    const int64_t x = i <= a.size() ? a[a.size() - i] : 1, y = i <= b.size() ? b[b.size() - i] : 1;
    if (x != y && x != 1 && y != 1) return std::nullopt;
    out[out.size() - i] = x == 1 ? y : x;
  }
  return out;
}

std::string words(const Dims& dims) {
  std::string out = "[";
  for (const int64_t dim : dims) out += text(out.size() == 1 ? "" : ",", dim);
  return out + "]";
}

}  // namespace

uint64_t GraphTensor::extent() const {
  if (strides.empty()) return static_cast<uint64_t>(product(dims));
  uint64_t last = 0;
  for (size_t i = 0; i < dims.size(); ++i) last += static_cast<uint64_t>((dims[i] - 1) * strides[i]);
  return last + 1;
}

Graph::Graph(std::mt19937_64& random, bool integers) : random_(&random) {
  const uint32_t real = below(2) == 0 ? TN_DTYPE_f32 : TN_DTYPE_f16;
  draw_inputs(integers ? uint32_t{TN_DTYPE_i32} : real);
  for (size_t wanted = 1 + below(8); nodes_.size() < wanted;) draw_node(integers);
  // Whatever nobody reads is an output, and some of the rest.
  std::vector<bool> read(tensors_.size());
  for (const GraphNode& node : nodes_) {
    for (const size_t i : node.inputs) read[i] = true;
  }
  for (const GraphNode& node : nodes_) {
    if (!read[node.output] || below(5) == 0) tensors_[node.output].role = GraphTensor::Role::output;
  }
}

std::vector<size_t> Graph::shuffled(size_t count) {
  std::vector<size_t> out(count);
  std::iota(out.begin(), out.end(), size_t{0});
  for (size_t i = count; i > 1; --i) std::swap(out[i - 1], out[below(i)]);
  return out;
}

void Graph::draw_inputs(uint32_t dtype) {
  constexpr int64_t sizes[] = {1, 2, 3, 4, 5, 6, 8, 12, 16};
  Dims base(1 + below(3));
  for (int64_t& dim : base) dim = sizes[below(std::size(sizes))];
  for (size_t count = 1 + below(3), i = 0; i < count; ++i) {
    GraphTensor made{.dtype = dtype, .dims = base, .role = GraphTensor::Role::input};
    for (int64_t& dim : made.dims) dim = i > 0 && below(4) == 0 ? 1 : dim;
    if (below(4) == 0) {  // dims in another order, with gaps
      made.strides.resize(base.size());
      int64_t step = 1;
      for (const size_t at : shuffled(base.size())) {
        made.strides[at] = step;
        step = step * made.dims[at] + static_cast<int64_t>(below(2));
      }
    }
    tensors_.push_back(std::move(made));
  }
}

void Graph::draw_node(bool integers) {
  const size_t from = below(2) == 0 ? tensors_.size() - 1 : below(tensors_.size());
  GraphNode node{.inputs = {from}, .attributes = [](FragmentBuilder::Node&) {}};
  GraphTensor made{.dtype = tensors_[from].dtype, .dims = tensors_[from].dims};
  constexpr uint32_t unary[] = {TN_OP_neg, TN_OP_abs, TN_OP_relu, TN_OP_square, TN_OP_sign};
  switch (below(integers ? 12 : 10)) {
    case 0:
    case 1:
    case 2:
      draw_binary(node, made);
      break;
    case 3:
      node.op = unary[below(std::size(unary))];
      break;
    case 4:
      draw_transpose(node, made);
      break;
    case 5:
    case 6:
      draw_reshape(node, made);
      break;
    case 7:
      draw_slice(node, made);
      break;
    case 8:
      draw_pad(node, made);
      break;
    case 9:
      draw_concat(node, made);
      break;
    default:
      draw_reduction(node, made);
  }
  if (node.op == 0 || product(made.dims) > most_elements) return;
  node.output = tensors_.size();
  tensors_.push_back(std::move(made));
  nodes_.push_back(std::move(node));
}

void Graph::draw_binary(GraphNode& node, GraphTensor& made) {
  constexpr uint32_t ops[] = {TN_OP_add, TN_OP_sub, TN_OP_mul, TN_OP_max, TN_OP_min};
  const size_t other = below(tensors_.size());
  const auto dims = joint(made.dims, tensors_[other].dims);
  if (!dims) return;
  node.op = ops[below(std::size(ops))];
  node.inputs.push_back(other);
  made.dims = *dims;
}

void Graph::draw_transpose(GraphNode& node, GraphTensor& made) {
  Dims order, dims;
  for (const size_t at : shuffled(made.dims.size())) {
    order.push_back(static_cast<int64_t>(at));
    dims.push_back(made.dims[at]);
  }
  node.op = TN_OP_transpose;
  node.attributes = [order](FragmentBuilder::Node& to) { to.integers("order", order); };
  made.dims = dims;
}

void Graph::draw_reshape(GraphNode& node, GraphTensor& made) {
  Dims shape;
  int64_t left = product(made.dims);
  while (left > 1 && shape.size() < 3) {
    int64_t dim = 1 + static_cast<int64_t>(below(static_cast<size_t>(left)));
    while (left % dim != 0) --dim;
    shape.push_back(dim);
    left /= dim;
  }
  shape.push_back(left);
  node.op = TN_OP_reshape;
  node.attributes = [shape](FragmentBuilder::Node& to) { to.integers("shape", shape); };
  made.dims = shape;
}

void Graph::draw_slice(GraphNode& node, GraphTensor& made) {
  Dims begin, end, step;
  for (int64_t& dim : made.dims) {
    begin.push_back(static_cast<int64_t>(below(static_cast<size_t>(dim))));
    end.push_back(begin.back() + 1 + static_cast<int64_t>(below(static_cast<size_t>(dim - begin.back()))));
    step.push_back(1 + static_cast<int64_t>(below(3)));
    dim = (end.back() - begin.back() + step.back() - 1) / step.back();
  }
  node.op = TN_OP_slice;
  node.attributes = [=](FragmentBuilder::Node& to) {
    to.integers("begin", begin).integers("end", end).integers("step", step);
  };
}

void Graph::draw_pad(GraphNode& node, GraphTensor& made) {
  Dims before, after;
  for (int64_t& dim : made.dims) {
    before.push_back(static_cast<int64_t>(below(3)));
    after.push_back(static_cast<int64_t>(below(3)));
    dim += before.back() + after.back();
  }
  node.op = TN_OP_pad;
  node.attributes = [=](FragmentBuilder::Node& to) {
    to.integers("before", before).integers("after", after).real("value", 3);
  };
}

void Graph::draw_concat(GraphNode& node, GraphTensor& made) {
  if (made.dims.empty()) return;
  const size_t axis = below(made.dims.size());
  for (size_t i = 0; i < tensors_.size() && node.inputs.size() < 3; ++i) {
    Dims other = tensors_[i].dims;
    if (other.size() != made.dims.size() || below(2) == 0) continue;
    const int64_t along = std::exchange(other[axis], made.dims[axis]);
    if (other != made.dims) continue;
    node.inputs.push_back(i);
    made.dims[axis] += along;
  }
  node.op = TN_OP_concat;
  node.attributes = [axis](FragmentBuilder::Node& to) { to.integer("axis", static_cast<int64_t>(axis)); };
}

void Graph::draw_reduction(GraphNode& node, GraphTensor& made) {
  constexpr uint32_t ops[] = {TN_OP_sum, TN_OP_reduce_max, TN_OP_reduce_min, TN_OP_reduce_prod};
  Dims axes, left;
  const bool keep = below(2) == 0;
  for (size_t i = 0; i < made.dims.size(); ++i) {
    const bool folded = below(2) == 0;
    if (folded) axes.push_back(static_cast<int64_t>(i));
    if (!folded || keep) left.push_back(folded ? 1 : made.dims[i]);
  }
  node.op = ops[below(std::size(ops))];
  node.attributes = [=](FragmentBuilder::Node& to) {
    to.integers("axes", axes).integer("keepdims", keep ? 1 : 0);
  };
  made.dims = left;
}

Bound Graph::fused(const Target& target) const {
  FragmentBuilder f("fused");
  Bound out;
  std::vector<uint32_t> index;
  std::vector<size_t> outputs;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const GraphTensor& t = tensors_[i];
    index.push_back(t.role == GraphTensor::Role::input   ? f.input(t.dtype, t.dims, t.strides)
                    : t.role == GraphTensor::Role::inner ? f.tensor(t.dtype, t.dims)
                                                         : f.output(t.dtype, t.dims));
    if (t.role == GraphTensor::Role::input) out.tensors.push_back(i);
    if (t.role == GraphTensor::Role::output) outputs.push_back(i);
  }
  out.tensors.insert(out.tensors.end(), outputs.begin(), outputs.end());
  for (const GraphNode& node : nodes_) {
    std::vector<uint32_t> inputs;
    for (const size_t i : node.inputs) inputs.push_back(index[i]);
    node.attributes(f.node(node.op, inputs, {index[node.output]}));
  }
  out.program = written(f, target);
  return out;
}

std::vector<Bound> Graph::apart() const {
  std::vector<Bound> out;
  for (const GraphNode& node : nodes_) {
    FragmentBuilder f("apart");
    Bound& one = out.emplace_back();
    std::vector<uint32_t> inputs;
    for (const size_t i : node.inputs) {
      inputs.push_back(f.input(tensors_[i].dtype, tensors_[i].dims, tensors_[i].strides));
      one.tensors.push_back(i);
    }
    one.tensors.push_back(node.output);
    node.attributes(
        f.node(node.op, inputs, {f.output(tensors_[node.output].dtype, tensors_[node.output].dims)}));
    one.program = written(f);
  }
  return out;
}

std::string Graph::told() const {
  std::string out;
  const auto name = [&](size_t i) {
    return text("t", i, words(tensors_[i].dims), tensors_[i].strides.empty() ? "" : "'");
  };
  for (const GraphNode& node : nodes_) {
    out += text(tenon::author::op_name(node.op), "(");
    for (const size_t i : node.inputs) out += text(out.back() == '(' ? "" : ", ", name(i));
    out += text(") -> ", name(node.output), "; ");
  }
  return out;
}

}  // namespace kernels_test
