// SPDX-License-Identifier: Apache-2.0
// honest_kernel.cpp: rules and loops of the honest plugin's kernels: add and max of f32, div of i32, sum of f32 over the
// last dims, identity of f32; any number of them as one fragment, whose inner values lie in the workspace.
#include "honest.hpp"

#include <tenon/author/op_rules.hpp>
#include <tenon/author/support.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <utility>

namespace honest {

using tenon::author::FragmentView;
using tenon::author::TensorView;
using tenon::author::text;

namespace {

int64_t place_of(uint32_t rank, const int64_t* dims, const int64_t* strides, uint64_t index) {
  int64_t offset = 0;
  for (uint32_t i = rank; i-- > 0; index /= static_cast<uint64_t>(dims[i]))
    offset += static_cast<int64_t>(index % static_cast<uint64_t>(dims[i])) * strides[i];
  return offset;
}

float sum_of(const float* first, int64_t n, int64_t step) {
  double total = 0;
  for (int64_t i = 0; i < n; ++i) total += static_cast<double>(first[i * step]);
  return static_cast<float>(total);
}

int32_t quotient(int32_t a, int32_t b) {
  if (b == 0) return 0;
  return b == -1 ? static_cast<int32_t>(0u - static_cast<uint32_t>(a)) : a / b;
}

bool elementwise(uint32_t op) {
  return op == TN_OP_add || op == TN_OP_max || op == TN_OP_div || op == TN_OP_identity;
}

uint32_t dtype_of(uint32_t op) { return op == TN_OP_div ? uint32_t{TN_DTYPE_i32} : uint32_t{TN_DTYPE_f32}; }

// Whether `axes` are the last dims, in order, and go away.
bool sums_last(const tn_node& node, TensorView in) {
  const auto axes = tenon::author::attribute_i64s(node, "axes");
  if (!axes || tenon::author::attribute_i64(node, "keepdims").value_or(0) != 0 || !in.is_dense())
    return false;
  for (size_t i = 0; i < axes->size(); ++i) {
    if ((*axes)[i] != static_cast<int64_t>(in.rank() - axes->size() + i)) return false;
  }
  return true;
}

// An operand as the output sees it: dims and strides of the output's rank, 0 where one element is repeated.
Operand seen_from(TensorView tensor, TensorView output) {
  Operand out{.rank = output.rank(), .elements = tensor.elements()};
  const auto strides = tensor.strides();
  for (uint32_t i = 0; i < output.rank(); ++i) {
    out.dims[i] = output.dims()[i];
    const uint32_t missing = output.rank() - tensor.rank();
    if (i >= missing && tensor.dims()[i - missing] != 1) out.strides[i] = strides[i - missing];
  }
  return out;
}

// Why a node does not run here; empty when it does.
std::string obstacle(const tn_node& node, const FragmentView& f) {
  const auto op = tenon::author::op_row(node.op);
  if (!elementwise(node.op) && node.op != TN_OP_sum) return text("op ", op.name, " is not computed here");
  for (uint32_t i = 0; i < node.input_count; ++i) {
    const TensorView in = f.tensor(node.inputs[i]);
    if (in.dtype() != dtype_of(node.op))
      return text(op.name, " is not computed in ", tenon::author::dtype_name(in.dtype()));
  }
  if (node.op == TN_OP_sum && !sums_last(node, f.tensor(node.inputs[0])))
    return "sums run over the last dims of a dense tensor";
  return {};
}

// Every output is made by a node, and is one output only.
bool plain_outputs(const FragmentView& f) {
  std::set<uint32_t> made, given;
  for (const tn_node& node : f.nodes()) made.insert(node.outputs[0]);
  return std::all_of(f.outputs().begin(), f.outputs().end(),
                     [&](uint32_t tensor) { return made.count(tensor) == 1 && given.insert(tensor).second; });
}

std::array<std::byte, 40> saved_form(const tn_fragment& fragment) {
  std::array<std::byte, 40> out{};
  std::memcpy(out.data(), "honest 1", 8);
  std::memcpy(out.data() + 8, fragment.identity, sizeof fragment.identity);
  return out;
}

Arithmetic usual() {
  return {.add = [](float a, float b) { return a + b; },
          .maximum = [](float a, float b) { return a > b || std::isnan(a) ? a : b; },
          .divide = quotient,
          .sum = sum_of,
          .place = place_of,
          .count = [](uint64_t n) { return n; },
          .prepare = [](float*, uint64_t) {},
          .op = [](uint32_t op, bool) { return op; },
          .inner = [](float x) { return x; }};
}

}  // namespace

Arithmetic& arithmetic() {
  static Arithmetic made = usual();
  return made;
}

Arithmetic& fused_arithmetic() {
  static Arithmetic made = usual();
  return made;
}

Status Device::supports(const tn_fragment& fragment, tn_support& out) {
  const FragmentView f(fragment);
  TN_TRY(tenon::author::check_rules(f));
  for (const tn_tensor& tensor : f.tensors()) {
    if (tensor.layout != 0 || (tensor.flags & TN_TENSOR_CONSTANT) != 0)
      return tenon::author::refuse(out, "private layouts and constants are not known here");
  }
  for (const tn_node& node : f.nodes()) {
    const std::string reason = obstacle(node, f);
    if (!reason.empty()) return tenon::author::refuse(out, reason);
  }
  if (!plain_outputs(f)) return tenon::author::refuse(out, "an output is an input, or is given out twice");
  // A later node may read what an earlier one would overwrite.
  const bool alone = f.nodes().size() == 1 && elementwise(f.nodes()[0].op);
  out.alias_mask = alone ? ~uint64_t{0} : 0;
  return tenon::author::accept(out);
}

Result<std::unique_ptr<Kernel>> Device::compile(const tn_fragment& fragment,
                                                const tn_compile_options& options) {
  tn_support answer{};
  TN_TRY(supports(fragment, answer));
  if (answer.verdict == TN_SUPPORT_NO) return Status(TN_UNSUPPORTED, answer.reason);
  const FragmentView f(fragment);
  auto made = std::make_unique<Kernel>();
  made->saved = saved_form(fragment);
  std::vector<Slot> slots(f.tensors().size());
  for (uint32_t i = 0; i < f.inputs().size(); ++i) slots[f.inputs()[i]] = {.bound = true, .at = i};
  for (uint32_t i = 0; i < f.outputs().size(); ++i)
    slots[f.outputs()[i]] = {.bound = true, .at = f.inputs().size() + i};
  for (const tn_node& node : f.nodes()) {
    Slot& slot = slots[node.outputs[0]];
    const TensorView out = f.tensor(node.outputs[0]);
    if (!slot.bound)
      slot.at = std::exchange(made->workspace, made->workspace + out.elements() * sizeof(float));
    Node& step = made->nodes.emplace_back();
    step.op = node.op;
    for (uint32_t i = 0; i < node.input_count; ++i) {
      const TensorView in = f.tensor(node.inputs[i]);
      step.from.push_back(slots[node.inputs[i]]);
      step.inputs.push_back(node.op == TN_OP_sum ? Operand{.elements = in.elements()} : seen_from(in, out));
    }
    step.to = slot;
    step.output = seen_from(out, out);
  }
  if (made->workspace <= options.workspace_limit) return made;
  return Status(TN_UNSUPPORTED, text("inner values take ", made->workspace,
                                     " bytes of workspace, the limit is ", options.workspace_limit));
}

Result<std::unique_ptr<Kernel>> Device::load(const tn_fragment& fragment, std::span<const std::byte> saved) {
  const auto wanted = saved_form(fragment);
  if (!std::equal(saved.begin(), saved.end(), wanted.begin(), wanted.end()))
    return Status(TN_MISMATCH, "these bytes were not saved here for this fragment: compile it anew");
  return compile(fragment, {.size = sizeof(tn_compile_options), .workspace_limit = TN_COMPILE_NO_LIMIT});
}

Result<uint64_t> Kernel::save(std::span<std::byte> out) const {
  std::copy_n(saved.begin(), std::min(out.size(), saved.size()), out.begin());
  return saved.size();
}

void Kernel::info(tn_kernel_info& out) const {
  tenon::author::set_text(out.engine, "honest loops");
  out.workspace_bytes = workspace;
}

Status Kernel::launch(Stream& stream, std::span<const tn_span> bindings, const tn_span& workspace_span) {
  std::vector<std::byte*> at;
  for (const tn_span& span : bindings) at.push_back(place(span));
  std::byte* const inner = workspace != 0 ? place(workspace_span) : nullptr;
  return stream.enqueue([work = *this, at, inner] { work.run(at, inner); });
}

void Kernel::run(const std::vector<std::byte*>& at, std::byte* inner) const {
  const Arithmetic& how = nodes.size() > 1 ? fused_arithmetic() : arithmetic();
  for (const Node& node : nodes) {
    const auto data = [&](const Slot& slot) {
      return reinterpret_cast<float*>(slot.bound ? at[slot.at] : inner + slot.at);
    };
    std::vector<const float*> in;
    for (const Slot& slot : node.from) in.push_back(data(slot));
    float* const out = data(node.to);
    how.prepare(out, node.output.elements);
    node.run(how, how.op(node.op, &node == &nodes.back()), in, out);
    for (uint64_t i = 0; !node.to.bound && node.op != TN_OP_div && i < node.output.elements; ++i)
      out[i] = how.inner(out[i]);
  }
}

void Node::run(const Arithmetic& how, uint32_t as, const std::vector<const float*>& in, float* out) const {
  const auto where = [&](const Operand& operand, uint64_t i) {
    return how.place(operand.rank, operand.dims.data(), operand.strides.data(), i);
  };
  const float *const a = in.front(), *const b = in.back();
  if (as == TN_OP_sum) {
    const auto length = static_cast<int64_t>(inputs[0].elements / std::max<uint64_t>(output.elements, 1));
    for (uint64_t i = 0; i < how.count(output.elements); ++i)
      out[where(output, i)] = how.sum(a + static_cast<int64_t>(i) * length, length, 1);
    return;
  }
  for (uint64_t i = 0; i < how.count(output.elements); ++i) {
    const int64_t there = where(output, i), here = where(inputs[0], i), other = where(inputs.back(), i);
    if (as == TN_OP_add) {
      out[there] = how.add(a[here], b[other]);
    } else if (as == TN_OP_max) {
      out[there] = how.maximum(a[here], b[other]);
    } else if (as == TN_OP_identity) {
      std::memcpy(&out[there], &a[here], sizeof(float));
    } else {
      reinterpret_cast<int32_t*>(out)[there] =
          how.divide(reinterpret_cast<const int32_t*>(a)[here], reinterpret_cast<const int32_t*>(b)[other]);
    }
  }
}

}  // namespace honest
