// SPDX-License-Identifier: Apache-2.0
// program.cpp: giving every tensor a home, and running node after node.
#include "program.hpp"

namespace tenon::sim {

namespace {

constexpr uint64_t alignment = 256;

}  // namespace

Program::Program(const author::FragmentView& f) : inputs_(f.inputs().size()) {
  for (const tn_tensor& raw : f.tensors()) {
    Tensor tensor{.shape = Shape(author::TensorView(raw))};
    if ((raw.flags & TN_TENSOR_CONSTANT) != 0) {
      const auto* const bytes = static_cast<const std::byte*>(raw.constant);
      tensor.home = Home::constant;
      tensor.constant.assign(bytes, bytes + raw.constant_bytes);
      tensor.shape = Shape::row_major(tensor.shape.dtype, tensor.shape.dims);
    }
    tensors_.push_back(std::move(tensor));
  }
  std::vector<bool> housed(tensors_.size());
  for (uint32_t i = 0; i < f.inputs().size(); ++i) {
    Tensor& tensor = tensors_[f.inputs()[i]];
    if (!housed[f.inputs()[i]] && tensor.home != Home::constant) {
      tensor.home = Home::binding;
      tensor.at = i;
    }
    housed[f.inputs()[i]] = true;
  }
  outputs_.assign(f.outputs().begin(), f.outputs().end());
  for (uint32_t i = 0; i < outputs_.size(); ++i) {
    Tensor& tensor = tensors_[outputs_[i]];
    const bool elsewhere = housed[outputs_[i]] || tensor.home == Home::constant || f.alias_of(i).has_value();
    if (elsewhere) {
      arrivals_.push_back({outputs_[i], inputs_ + i, Shape(f.output(i))});
    } else {
      tensor.home = Home::binding;
      tensor.at = inputs_ + i;
      housed[outputs_[i]] = true;
    }
  }
  for (Tensor& tensor : tensors_) {
    if (tensor.home != Home::workspace) continue;
    tensor.at = workspace_bytes_;
    workspace_bytes_ += (tensor.shape.bytes() + alignment - 1) / alignment * alignment;
  }
  for (const tn_node& node : f.nodes()) nodes_.emplace_back(node);
}

std::byte* Program::data(const Tensor& tensor, std::span<std::byte* const> bindings,
                         std::byte* workspace) const {
  if (tensor.home == Home::binding) return bindings[tensor.at];
  // Kernels only read what is an input; a constant is nobody's output.
  if (tensor.home == Home::constant) return const_cast<std::byte*>(tensor.constant.data());
  return workspace + tensor.at;
}

Operand Program::operand(uint32_t index, std::span<std::byte* const> bindings, std::byte* workspace) const {
  if (index == TN_ABSENT) return {};
  const Tensor& tensor = tensors_[index];
  return {tensor.shape, data(tensor, bindings, workspace)};
}

std::span<std::byte> Program::first_output(std::span<std::byte* const> bindings) const noexcept {
  if (outputs_.empty() || bindings[inputs_] == nullptr) return {};
  return {bindings[inputs_], tensors_[outputs_[0]].shape.bytes()};
}

void Program::run(std::span<std::byte* const> bindings, std::byte* workspace) const {
  for (const Node& node : nodes_) {
    Call call{.node = node, .in = {}, .out = {}};
    for (const uint32_t index : node.in) call.in.push_back(operand(index, bindings, workspace));
    for (const uint32_t index : node.out) call.out.push_back(operand(index, bindings, workspace));
    routine_of(node.op)(call);
  }
  for (const auto& [tensor, binding, shape] : arrivals_) {
    const Operand from = operand(tensor, bindings, workspace), to(shape, bindings[binding]);
    for (uint64_t i = 0; i < to.count(); ++i) to.take(i, from, i);
  }
}

}  // namespace tenon::sim
