// SPDX-License-Identifier: Apache-2.0
// epilogue.cpp: which of the nodes behind a product go with it.
//
// Invariant: an operand that the epilogue reads is there before the product runs.
#include "epilogue.hpp"

#include "gemm.hpp"

#include <algorithm>

namespace tenon::cpu {
namespace {

bool is_activation(uint32_t op) noexcept {
  return op == TN_OP_relu || op == TN_OP_gelu || op == TN_OP_sigmoid || op == TN_OP_tanh || op == TN_OP_silu;
}

// Whether the tensor has one element for each step of the result's `axis`, and is broadcast to the rest.
bool is_bias(TensorView tensor, TensorView result, uint32_t axis) noexcept {
  if (tensor.rank() > result.rank()) return false;
  const uint32_t missing = result.rank() - tensor.rank();
  if (axis < missing) return false;
  for (uint32_t i = 0; i < tensor.rank(); ++i) {
    if (tensor.dims()[i] != (missing + i == axis ? result.dims()[axis] : 1)) return false;
  }
  return true;
}

class Search {
 public:
  Search(const FragmentView& fragment, uint32_t product)
      : fragment_(fragment),
        product_(product),
        axis_(node().op == TN_OP_conv2d ? 1 : fragment.tensor(node().outputs[0]).rank() - 1) {
    found_ = {.end = product + 1, .result = node().outputs[0]};
  }

  Epilogue run() {
    if (!may_have_one()) return found_;
    while (found_.activation == TN_OP_identity && found_.end < fragment_.nodes().size() &&
           take(fragment_.nodes()[found_.end])) {
    }
    return found_;
  }

 private:
  const tn_node& node() const noexcept { return fragment_.nodes()[product_]; }

  bool may_have_one() const noexcept {
    if (!has_onednn() || (node().op != TN_OP_matmul && node().op != TN_OP_conv2d)) return false;
    const TensorView a = fragment_.tensor(node().inputs[0]), b = fragment_.tensor(node().inputs[1]),
                     c = fragment_.tensor(found_.result);
    return a.dtype() != TN_DTYPE_f64 && a.elements() != 0 && b.elements() != 0 && c.elements() != 0;
  }

  // Behind convolutions that oneDNN makes by a product or in plain loops, its sigmoid is plain C++ and makes 0 of a NaN.
  bool loses_nan(uint32_t op) const noexcept { return op == TN_OP_sigmoid && node().op == TN_OP_conv2d; }

  // Takes the next node along if it can be.
  bool take(const tn_node& next) {
    const uint32_t value = found_.result;
    if (std::count(next.inputs, next.inputs + next.input_count, value) != 1) return false;
    if (wanted_outside(fragment_, value, {found_.end, found_.end + 1})) return false;
    if (is_activation(next.op)) {
      if (loses_nan(next.op)) return false;
      found_.activation = next.op;
      found_.variant = author::attribute_i64(next, "tanh").value_or(0) != 0;
    } else if (next.op != TN_OP_add || !take_operand(next.inputs[next.inputs[0] == value ? 1 : 0], next)) {
      return false;
    }
    found_.result = next.outputs[0];
    ++found_.end;
    return true;
  }

  bool take_operand(uint32_t operand, const tn_node& next) {
    const TensorView result = fragment_.tensor(found_.result), other = fragment_.tensor(operand);
    if (!author::same_dims(fragment_.tensor(next.outputs[0]), result)) return false;
    if (found_.bias == TN_ABSENT && found_.residual == TN_ABSENT && is_bias(other, result, axis_)) {
      found_.bias = operand;
      return true;
    }
    if (found_.residual != TN_ABSENT || !author::same_dims(other, result)) return false;
    found_.residual = operand;
    return true;
  }

  const FragmentView& fragment_;
  uint32_t product_, axis_;
  Epilogue found_;
};

}  // namespace

Epilogue epilogue_of(const FragmentView& fragment, uint32_t product) {
  return Search(fragment, product).run();
}

Nodes product_nodes(const FragmentView& fragment, uint32_t at) { return {at, epilogue_of(fragment, at).end}; }

bool read_in(const FragmentView& fragment, uint32_t tensor, const Nodes& nodes) {
  const auto range = fragment.nodes().subspan(nodes.first, nodes.end - nodes.first);
  return std::any_of(range.begin(), range.end(), [&](const tn_node& node) {
    const uint32_t* const end = node.inputs + node.input_count;
    return std::find(node.inputs, end, tensor) != end;
  });
}

bool wanted_outside(const FragmentView& fragment, uint32_t tensor, const Nodes& nodes) {
  const auto outputs = fragment.outputs();
  if (std::find(outputs.begin(), outputs.end(), tensor) != outputs.end()) return true;
  const auto count = static_cast<uint32_t>(fragment.nodes().size());
  return read_in(fragment, tensor, {0, nodes.first}) || read_in(fragment, tensor, {nodes.end, count});
}

}  // namespace tenon::cpu
