// SPDX-License-Identifier: Apache-2.0
// lowered.cpp: tensors and nodes added behind those of a fragment.
//
// Invariant: after every call the view is whole: its lists are those of the nodes added so far.
#include "lowered.hpp"

#include "literal.hpp"

#include <algorithm>

namespace tenon::cuda {

namespace {

bool gives_bool(uint32_t op) {
  switch (op) {
    case TN_OP_equal:
    case TN_OP_not_equal:
    case TN_OP_less:
    case TN_OP_greater_equal:
    case TN_OP_is_finite:
      return true;
    default:
      return false;
  }
}

// numpy's: trailing dims meet.
void broadcast(Dims& to, std::span<const int64_t> dims) {
  if (to.size() < dims.size()) to.insert(to.begin(), dims.size() - to.size(), 1);
  for (size_t i = 0; i < dims.size(); ++i) {
    int64_t& dim = to[to.size() - dims.size() + i];
    if (dim == 1) dim = dims[i];
  }
}

tn_attribute dtype_attribute(uint32_t dtype) {
  return {.name = "dtype", .kind = TN_ATTRIBUTE_DTYPE, .i64 = static_cast<int64_t>(dtype)};
}

}  // namespace

Lowered::Lowered(const FragmentView& fragment)
    : raw_(fragment.raw()), tensors_(fragment.tensors().begin(), fragment.tensors().end()) {
  for (const tn_node& node : fragment.nodes()) {
    if (is_over_rows(node.op))
      spell_out(node, *this);
    else
      nodes_.push_back(node);
    refresh();
  }
}

void Lowered::refresh() noexcept {
  raw_.tensors = tensors_.data();
  raw_.tensor_count = static_cast<uint32_t>(tensors_.size());
  raw_.nodes = nodes_.data();
  raw_.node_count = static_cast<uint32_t>(nodes_.size());
}

uint32_t Lowered::add_tensor(uint32_t dtype, Dims dims) {
  const Dims& kept = numbers_.emplace_back(std::move(dims));
  tn_tensor made{};
  made.dtype = dtype;
  made.rank = static_cast<uint32_t>(kept.size());
  made.dims = kept.data();
  tensors_.push_back(made);
  refresh();
  return static_cast<uint32_t>(tensors_.size() - 1);
}

void Lowered::add_node(uint32_t op, std::span<const uint32_t> inputs, uint32_t output,
                       std::vector<tn_attribute> attributes) {
  std::vector<uint32_t>& operands = operands_.emplace_back(inputs.begin(), inputs.end());
  operands.push_back(output);
  const auto& kept = attributes_.emplace_back(std::move(attributes));
  tn_node made{};
  made.op = op;
  made.version = author::op_row(op).version;
  made.input_count = static_cast<uint32_t>(inputs.size());
  made.output_count = 1;
  made.attribute_count = static_cast<uint32_t>(kept.size());
  made.inputs = operands.data();
  made.outputs = operands.data() + inputs.size();
  made.attributes = kept.data();
  nodes_.push_back(made);
  refresh();
}

tn_attribute Lowered::integers(const char* name, Dims values) {
  const Dims& kept = numbers_.emplace_back(std::move(values));
  return {.name = name, .kind = TN_ATTRIBUTE_I64S, .count = kept.size(), .data = kept.data()};
}

uint32_t Lowered::compute(uint32_t op, std::initializer_list<uint32_t> inputs,
                          std::initializer_list<tn_attribute> attributes) {
  Dims dims;
  for (const uint32_t input : inputs) broadcast(dims, view().tensor(input).dims());
  const uint32_t from = view().tensor(*(inputs.end() - 1)).dtype();
  const uint32_t made = add_tensor(gives_bool(op) ? uint32_t{TN_DTYPE_bool} : from, std::move(dims));
  add_node(op, inputs, made, attributes);
  return made;
}

uint32_t Lowered::cast(uint32_t tensor, uint32_t dtype) {
  const author::TensorView from = view().tensor(tensor);
  if (from.dtype() == dtype) return tensor;
  const uint32_t made = add_tensor(dtype, Dims(from.dims().begin(), from.dims().end()));
  add_node(TN_OP_cast, {&tensor, 1}, made, {dtype_attribute(dtype)});
  return made;
}

uint32_t Lowered::reshape(uint32_t tensor, Dims dims) {
  const uint32_t made = add_tensor(view().tensor(tensor).dtype(), dims);
  add_node(TN_OP_reshape, {&tensor, 1}, made, {integers("shape", std::move(dims))});
  return made;
}

uint32_t Lowered::reduce(uint32_t op, uint32_t tensor, const std::vector<bool>& folded) {
  const author::TensorView from = view().tensor(tensor);
  Dims axes, left;
  for (size_t i = 0; i < folded.size(); ++i) {
    if (folded[i])
      axes.push_back(static_cast<int64_t>(i));
    else
      left.push_back(from.dims()[i]);
  }
  const uint32_t made = add_tensor(from.dtype(), std::move(left));
  const tn_attribute keep{.name = "keepdims", .kind = TN_ATTRIBUTE_I64};
  add_node(op, {&tensor, 1}, made, {integers("axes", std::move(axes)), keep});
  return made;
}

uint32_t Lowered::one_hot(uint32_t indices, int64_t classes) {
  const std::span<const int64_t> rows = view().tensor(indices).dims();
  Dims dims(rows.begin(), rows.end());
  dims.push_back(classes);
  const uint32_t made = add_tensor(TN_DTYPE_bool, std::move(dims));
  add_node(TN_OP_one_hot, {&indices, 1}, made,
           {{.name = "classes", .kind = TN_ATTRIBUTE_I64, .i64 = classes}, dtype_attribute(TN_DTYPE_bool)});
  return made;
}

uint32_t Lowered::add_number(uint32_t dtype, uint64_t bits) {
  const uint32_t made = add_tensor(dtype, {});
  tensors_[made].flags = TN_TENSOR_CONSTANT;
  tensors_[made].constant = &constants_.emplace_back(bits);
  tensors_[made].constant_bytes = sizeof bits;
  return made;
}
uint32_t Lowered::number(uint32_t dtype, double value) { return add_number(dtype, bits_of(dtype, value)); }
uint32_t Lowered::number(int64_t value) { return add_number(TN_DTYPE_i64, static_cast<uint64_t>(value)); }

void Lowered::give(uint32_t from, uint32_t to) {
  const uint32_t dtype = view().tensor(to).dtype();
  if (view().tensor(from).dtype() == dtype)
    add_node(TN_OP_identity, {&from, 1}, to, {});
  else
    add_node(TN_OP_cast, {&from, 1}, to, {dtype_attribute(dtype)});
}

}  // namespace tenon::cuda
