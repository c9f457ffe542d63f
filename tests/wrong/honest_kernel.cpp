// SPDX-License-Identifier: Apache-2.0
// honest_kernel.cpp: rules and loops of the honest plugin's kernels: add and max of f32, div of i32, sum of f32 over the
// last dims, identity of both.
#include "honest.hpp"

#include <tenon/author/support.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>

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

Status check_shapes(const tn_node& node, const FragmentView& f) {
  const TensorView out = f.tensor(node.outputs[0]);
  std::vector<int64_t> dims;
  for (uint32_t n = 0; n < node.input_count; ++n) {
    const TensorView in = f.tensor(node.inputs[n]);
    for (uint32_t i = 0; node.op != TN_OP_sum && i < in.rank(); ++i) {
      const bool inside = in.rank() <= out.rank();
      const int64_t there = inside ? out.dims()[out.rank() - in.rank() + i] : -1;
      if (in.dims()[i] != 1 && in.dims()[i] != there)
        return Status(TN_INVALID, text("input ", n, " does not broadcast to the output"));
    }
  }
  const TensorView in = f.tensor(node.inputs[0]);
  if (node.op == TN_OP_identity && !tenon::author::same_dims(in, out))
    return Status(TN_INVALID, "identity keeps the shape");
  return {};
}

}  // namespace

Arithmetic& arithmetic() {
  static Arithmetic made{.add = [](float a, float b) { return a + b; },
                         .maximum = [](float a, float b) { return a > b || std::isnan(a) ? a : b; },
                         .divide = quotient,
                         .sum = sum_of,
                         .place = place_of,
                         .count = [](uint64_t n) { return n; },
                         .prepare = [](float*, uint64_t) {}};
  return made;
}

Status Device::supports(const tn_fragment& fragment, tn_support& out) {
  const FragmentView f(fragment);
  if (f.nodes().size() != 1)
    return f.nodes().empty() ? Status(TN_INVALID, "there are no nodes")
                             : tenon::author::refuse(out, "one node at a time");
  const tn_node& node = f.nodes()[0];
  const auto op = tenon::author::op_row(node.op);
  if ((!elementwise(node.op) && node.op != TN_OP_sum) || node.version > op.version)
    return tenon::author::refuse(out, text("op ", op.name, " is not computed here"));
  for (const tn_tensor& tensor : f.tensors()) {
    if (tensor.layout != 0 || (tensor.flags & TN_TENSOR_CONSTANT) != 0)
      return tenon::author::refuse(out, "private layouts and constants are not known here");
    if (tensor.dtype != dtype_of(node.op))
      return tenon::author::refuse(
          out, text(op.name, " is not computed in ", tenon::author::dtype_name(tensor.dtype)));
  }
  if (node.op == TN_OP_sum && !sums_last(node, f.tensor(node.inputs[0])))
    return tenon::author::refuse(out, "sums run over the last dims of a dense tensor");
  TN_TRY(check_shapes(node, f));
  out.alias_mask = elementwise(node.op) ? ~uint64_t{0} : 0;
  return tenon::author::accept(out);
}

Result<std::unique_ptr<Kernel>> Device::compile(const tn_fragment& fragment, const tn_compile_options&) {
  tn_support answer{};
  TN_TRY(supports(fragment, answer));
  if (answer.verdict == TN_SUPPORT_NO) return Status(TN_UNSUPPORTED, answer.reason);
  const FragmentView f(fragment);
  const tn_node& node = f.nodes()[0];
  const TensorView out = f.tensor(node.outputs[0]);
  auto made = std::make_unique<Kernel>();
  made->op = node.op;
  for (uint32_t i = 0; i < node.input_count; ++i) {
    const TensorView in = f.tensor(node.inputs[i]);
    made->inputs.push_back(node.op == TN_OP_sum ? Operand{.elements = in.elements()} : seen_from(in, out));
  }
  made->output = seen_from(out, out);
  return made;
}

void Kernel::info(tn_kernel_info& out) const { tenon::author::set_text(out.engine, "honest loops"); }

Status Kernel::launch(Stream& stream, std::span<const tn_span> bindings, const tn_span& /*workspace*/) {
  std::vector<std::byte*> at;
  for (const tn_span& span : bindings) at.push_back(place(span));
  return stream.enqueue([work = *this, at] { work.run(at); });
}

void Kernel::run(const std::vector<std::byte*>& at) const {
  const Arithmetic& how = arithmetic();
  const auto where = [&](const Operand& operand, uint64_t i) {
    return how.place(operand.rank, operand.dims.data(), operand.strides.data(), i);
  };
  const auto* const a = reinterpret_cast<const float*>(at[0]);
  auto* const out = reinterpret_cast<float*>(at.back());
  how.prepare(out, output.elements);
  if (op == TN_OP_sum) {
    const auto length = static_cast<int64_t>(inputs[0].elements / std::max<uint64_t>(output.elements, 1));
    for (uint64_t i = 0; i < how.count(output.elements); ++i)
      out[where(output, i)] = how.sum(a + static_cast<int64_t>(i) * length, length, 1);
    return;
  }
  for (uint64_t i = 0; i < how.count(output.elements); ++i) {
    const int64_t to = where(output, i), from = where(inputs[0], i), other = where(inputs.back(), i);
    const auto* const b = reinterpret_cast<const float*>(at[inputs.size() - 1]);
    if (op == TN_OP_add) {
      out[to] = how.add(a[from], b[other]);
    } else if (op == TN_OP_max) {
      out[to] = how.maximum(a[from], b[other]);
    } else if (op == TN_OP_identity) {
      std::memcpy(&out[to], &a[from], sizeof(float));
    } else {
      reinterpret_cast<int32_t*>(out)[to] =
          how.divide(reinterpret_cast<const int32_t*>(a)[from], reinterpret_cast<const int32_t*>(b)[other]);
    }
  }
}

}  // namespace honest
