// SPDX-License-Identifier: Apache-2.0
// fused.cpp: from nodes to chains.
//
// Invariant: a tensor that leaves a chain is stored once; a later chain of the same step loads it from there.
#include "fused.hpp"

#include "chain_nodes.hpp"
#include "epilogue.hpp"

namespace tenon::cpu {

using Value = Chain::Value;

namespace {

// The operand whose shape and class are the kernel's.
TensorView whole(const FragmentView& fragment, const tn_node& kernel) noexcept {
  return fragment.tensor(kernel.inputs[0]);
}

bool matches(TensorView tensor, TensorView whole) noexcept {
  return author::is_float(tensor.dtype()) && class_of(tensor.dtype()) == class_of(whole.dtype()) &&
         author::same_dims(tensor, whole);
}

// How many inputs of an op, from the first, have the whole shape; 0 where nothing joins it.
uint32_t whole_inputs(uint32_t op) noexcept {
  switch (op) {
    case TN_OP_batch_norm_train:
    case TN_OP_batch_norm_infer:
    case TN_OP_batch_norm_apply:
    case TN_OP_layer_norm:
    case TN_OP_rms_norm:
    case TN_OP_softmax:
    case TN_OP_log_softmax:
    case TN_OP_cross_entropy:
    case TN_OP_cross_entropy_grad:
      return 1;
    case TN_OP_batch_norm_grad:
    case TN_OP_batch_norm_grad_apply:
    case TN_OP_layer_norm_grad:
    case TN_OP_rms_norm_grad:
    case TN_OP_softmax_grad:
      return 2;
    default:
      return 0;
  }
}

// Whether the first output has the whole shape, so that nodes may take it in the same step.
bool gives_whole(uint32_t op) noexcept { return op != TN_OP_cross_entropy; }

// Whether the kernel takes what `node` makes as a parameter, or `node` a statistic that the kernel makes: neither is at
// hand while a chain runs.
bool meets_beside(const tn_node& kernel, const tn_node& node) noexcept {
  for (uint32_t i = whole_inputs(kernel.op); i < kernel.input_count; ++i) {
    if (kernel.inputs[i] == node.outputs[0]) return true;
  }
  for (uint32_t k = gives_whole(kernel.op) ? 1 : 0; k < kernel.output_count; ++k) {
    for (uint32_t i = 0; i < node.input_count; ++i) {
      if (node.inputs[i] == kernel.outputs[k]) return true;
    }
  }
  return false;
}

// Whether the kernel walks its tensors in logical order, so that an element's number is known, and where smaller operands
// repeat.
bool walks_in_order(const FragmentView& fragment, const tn_node& kernel) noexcept {
  switch (kernel.op) {
    case TN_OP_layer_norm:
    case TN_OP_rms_norm:
    case TN_OP_layer_norm_grad:
    case TN_OP_rms_norm_grad:
    case TN_OP_cross_entropy:
    case TN_OP_cross_entropy_grad:
      return true;
    case TN_OP_softmax:
    case TN_OP_log_softmax:
    case TN_OP_softmax_grad: {
      const int64_t axis = author::attribute_i64(kernel, "axis").value_or(-1);
      return axis == -1 || axis + 1 == static_cast<int64_t>(whole(fragment, kernel).rank());
    }
    default:
      return false;
  }
}

bool repeats_to(TensorView tensor, TensorView whole) noexcept {
  return author::is_float(tensor.dtype()) && class_of(tensor.dtype()) == class_of(whole.dtype()) &&
         repeats_over(tensor, whole.dims());
}

// Whether `node`, a neighbour of `kernel`, can run in its step.
bool joins(const FragmentView& fragment, const tn_node& kernel, const tn_node& node) noexcept {
  if (!is_chained(node.op) || node.input_count == 0 || node.op == TN_OP_broadcast_to) return false;
  if (whole_inputs(kernel.op) == 0 || meets_beside(kernel, node)) return false;
  const bool in_order = walks_in_order(fragment, kernel);
  if (node.op == TN_OP_dropout && !in_order) return false;
  const TensorView shape = whole(fragment, kernel);
  for (uint32_t i = 0; i < operand_count(node); ++i) {
    const TensorView operand = fragment.tensor(node.inputs[i]);
    if (!matches(operand, shape) && !(in_order && repeats_to(operand, shape))) return false;
  }
  return matches(fragment.tensor(node.outputs[0]), shape);
}

// Whether `node` is a batch norm's gradient by the x that `apply` normalises.
bool reads_x_of(const tn_node& node, const tn_node& apply) noexcept {
  const bool is_gradient = node.op == TN_OP_batch_norm_grad || node.op == TN_OP_batch_norm_grad_apply;
  return is_gradient && node.inputs[1] == apply.inputs[0];
}

// The first node from `at` on that no chain computes.
uint32_t behind_chained(const FragmentView& fragment, uint32_t at) noexcept {
  const auto nodes = fragment.nodes();
  while (at < nodes.size() && is_chained(nodes[at].op)) ++at;
  return at;
}

// Of the node `apply`, if it is such a one, and whatever stands between joins the kernel.
std::optional<MadeAgain> made_again(const FragmentView& fragment, uint32_t apply) noexcept {
  const auto nodes = fragment.nodes();
  if (apply >= nodes.size() || nodes[apply].op != TN_OP_batch_norm_apply) return {};
  const tn_node& norm = nodes[apply];
  const uint32_t kernel = behind_chained(fragment, apply + 1), given = norm.outputs[0];
  if (kernel == nodes.size() || kernel - apply > most_joining || !reads_x_of(nodes[kernel], norm)) return {};
  uint32_t relu_grad = TN_ABSENT;
  for (uint32_t n = apply + 1; n < kernel; ++n) {
    if (!joins(fragment, nodes[kernel], nodes[n]) || meets_beside(norm, nodes[n])) return {};
    if (nodes[n].outputs[0] == nodes[kernel].inputs[0]) relu_grad = n;
  }
  if (relu_grad == TN_ABSENT) return {};
  const tn_node& mask = nodes[relu_grad];
  const bool masks = mask.op == TN_OP_relu_grad && mask.inputs[1] == given && mask.inputs[0] != given;
  if (!masks || wanted_outside(fragment, given, {relu_grad, relu_grad + 1}) ||
      wanted_outside(fragment, mask.outputs[0], {kernel, kernel + 1}))
    return {};
  return MadeAgain{apply, relu_grad, kernel};
}

}  // namespace

Nodes kernel_nodes(const FragmentView& fragment, uint32_t at) {
  const auto nodes = fragment.nodes();
  const auto again = made_again(fragment, at);
  const uint32_t kernel = again ? again->kernel : at;
  const auto joins_before = [&](const tn_node& node) {
    return joins(fragment, nodes[kernel], node) && !(again && meets_beside(nodes[at], node));
  };
  Nodes taken{at, kernel + 1};
  while (taken.first > 0 && kernel - taken.first < most_joining && joins_before(nodes[taken.first - 1]))
    --taken.first;
  while (gives_whole(nodes[kernel].op) && taken.end < nodes.size() && taken.end - kernel <= most_joining &&
         joins(fragment, nodes[kernel], nodes[taken.end])) {
    ++taken.end;
  }
  return taken;
}

KernelGroup kernel_group(const FragmentView& fragment, uint32_t first, uint32_t end) noexcept {
  const uint32_t at = behind_chained(fragment, first);
  const auto again = made_again(fragment, at);
  const uint32_t kernel = again ? again->kernel : at;
  return {fragment.nodes()[kernel], first, kernel, end, again};
}

uint32_t kernel_of(const FragmentView& fragment, uint32_t first) noexcept {
  return kernel_group(fragment, first, first).kernel;
}

Reg kernel_class(const FragmentView& fragment, const tn_node& kernel) noexcept {
  return class_of(whole(fragment, kernel).dtype());
}

bool whole_in_place(const tn_node& node, uint32_t input, uint32_t output) {
  return output == 0 && gives_whole(node.op) && input < whole_inputs(node.op);
}

uint32_t FusedNodes::stored_dtype(uint32_t tensor) const {
  const Reg reg = kernel_class(fragment_, fragment_.nodes()[kernel_]);
  const uint32_t own = fragment_.tensor(tensor).dtype();
  return class_of(own) == reg ? own : static_cast<uint32_t>(reg == Reg::f64 ? TN_DTYPE_f64 : TN_DTYPE_f32);
}

bool FusedNodes::wanted(uint32_t tensor, uint32_t from) const {
  return wanted_outside(fragment_, tensor, {0, from});
}

Result<Value> FusedNodes::value_of(Values& values, uint32_t tensor) {
  Value& value = values.of[tensor];
  const uint32_t dtype = stored_dtype(tensor);
  if (value != Chain::none) return value;
  const TensorView view = fragment_.tensor(tensor), shape = whole(fragment_, fragment_.nodes()[kernel_]);
  if (author::same_dims(view, shape)) {
    value = values.chain.load(TN_TRY(arrangement_.input(tensor, dtype)), dtype);
  } else {
    value = values.chain.load(builder_.place(tensor), View(view, shape.dims()));
  }
  return value;
}

// Stores the result when a node from `read_from` on wants it.
Status FusedNodes::add(Values& values, const tn_node& node, uint32_t read_from) {
  const uint32_t tensor = node.outputs[0], dtype = fragment_.tensor(tensor).dtype();
  Value operands[3] = {Chain::none, Chain::none, Chain::none};
  for (uint32_t i = 0; i < operand_count(node); ++i) operands[i] = TN_TRY(value_of(values, node.inputs[i]));
  const Value value = chain_node(builder_, values.chain, class_of(dtype), node, operands);
  values.of[tensor] = value;
  if (wanted(tensor, read_from))
    values.chain.store(value, arrangement_.output(tensor, dtype), dtype, fragment_.tensor(tensor).elements(),
                       true);
  return {};
}

Result<Chain> FusedNodes::read(std::span<const uint32_t> tensors) {
  const tn_node& kernel = fragment_.nodes()[kernel_];
  Chain chain(kernel_class(fragment_, kernel));
  Values values{chain, std::vector<Value>(fragment_.tensors().size(), Chain::none)};
  for (uint32_t n = first_; n < kernel_; ++n) {
    if (!is_kernels_own(n)) TN_TRY(add(values, fragment_.nodes()[n], kernel_ + 1));
  }
  for (const uint32_t tensor : tensors) chain.result(TN_TRY(value_of(values, tensor)));
  if (!chain.finish()) return Status(TN_INTERNAL, "more values before a kernel than a chain holds");
  return chain;
}

Result<Chain> FusedNodes::read_again(std::span<const uint32_t> tensors) {
  Chain chain(kernel_class(fragment_, fragment_.nodes()[kernel_]));
  for (uint32_t n = first_; n < kernel_; ++n) {
    const uint32_t made = fragment_.nodes()[n].outputs[0];
    const bool read = std::find(tensors.begin(), tensors.end(), made) != tensors.end();
    if (read && !wanted(made, kernel_ + 1)) return chain;
  }
  Values values{chain, std::vector<Value>(fragment_.tensors().size(), Chain::none)};
  for (const uint32_t tensor : tensors) chain.result(TN_TRY(value_of(values, tensor)));
  if (!chain.finish()) return Status(TN_INTERNAL, "more values before a kernel than a chain holds");
  return chain;
}

Result<Chain> FusedNodes::write(uint32_t tensor) {
  const tn_node& kernel = fragment_.nodes()[kernel_];
  Chain chain(kernel_class(fragment_, kernel));
  const bool made = tensor != TN_ABSENT && wanted(tensor, kernel_ + 1);
  if (!made && end_ - first_ == 1) return chain;
  Values values{chain, std::vector<Value>(fragment_.tensors().size(), Chain::none)};
  Value value = chain.hole();
  if (made) {
    const uint32_t dtype = stored_dtype(tensor);
    if (narrowing(dtype) != nullptr && end_ > kernel_ + 1)
      value = chain.compute(narrowing_of(dtype), {}, value);
    values.of[tensor] = value;
    if (wanted(tensor, end_))
      chain.store(value, arrangement_.output(tensor, dtype), dtype, fragment_.tensor(tensor).elements(),
                  end_ > kernel_ + 1);
  }
  for (uint32_t n = kernel_ + 1; n < end_; ++n) TN_TRY(add(values, fragment_.nodes()[n], end_));
  if (!chain.finish()) return Status(TN_INTERNAL, "more values after a kernel than a chain holds");
  return chain;
}

}  // namespace tenon::cpu
