// SPDX-License-Identifier: Apache-2.0
// product_parts.cpp: from the matmul on along its value, and then what is summed beside it.
#include "product_parts.hpp"

#include <tenon/author/node_view.hpp>

#include <algorithm>
#include <bit>

namespace tenon::cuda {

using author::FragmentView;
using author::NodeView;
using author::TensorView;
using author::text;

namespace {

constexpr size_t most_nodes = 8;

// The axis of the result that the tensor has one element for each step of, all its other dims being 1; the last one first.
uint32_t vector_axis(TensorView tensor, TensorView result) noexcept {
  if (tensor.rank() > result.rank()) return TN_ABSENT;
  const uint32_t missing = result.rank() - tensor.rank();
  for (uint32_t axis = result.rank(); axis-- > result.rank() - 2;) {
    bool fits = axis >= missing;
    for (uint32_t i = 0; i < tensor.rank() && fits; ++i)
      fits = tensor.dims()[i] == (missing + i == axis ? result.dims()[axis] : 1);
    if (fits) return axis;
  }
  return TN_ABSENT;
}

class PartSearch {
 public:
  explicit PartSearch(const FragmentView& fragment) : fragment_(fragment) {}

  Result<ProductParts> run() {
    TN_TRY(find_product());
    for (uint32_t next = reader(); next != TN_ABSENT; next = reader()) TN_TRY(take(next));
    for (uint32_t n = 0; n < count(); ++n) {
      if (!taken(n) && fragment_.nodes()[n].op == TN_OP_sum) TN_TRY(take_sum(n));
    }
    TN_TRY(check_nodes());
    TN_TRY(check_outputs());
    return parts_;
  }

 private:
  uint32_t count() const noexcept { return static_cast<uint32_t>(fragment_.nodes().size()); }
  NodeView node(uint32_t n) const noexcept { return {fragment_, n}; }
  bool taken(uint32_t n) const noexcept { return (taken_ >> n & 1) != 0; }
  bool is_output(uint32_t tensor) const noexcept {
    return std::ranges::find(fragment_.outputs(), tensor) != fragment_.outputs().end();
  }
  // The node that makes a tensor; TN_ABSENT: it is bound.
  uint32_t maker(uint32_t tensor) const noexcept {
    for (uint32_t n = 0; n < count(); ++n) {
      const tn_node& one = fragment_.nodes()[n];
      if (std::find(one.outputs, one.outputs + one.output_count, tensor) != one.outputs + one.output_count)
        return n;
    }
    return TN_ABSENT;
  }
  bool is_made_here(uint32_t tensor) const noexcept { return maker(tensor) != TN_ABSENT; }
  static bool reads(const tn_node& n, uint32_t tensor) noexcept {
    return std::find(n.inputs, n.inputs + n.input_count, tensor) != n.inputs + n.input_count;
  }

  Status find_product() {
    if (count() > most_nodes) {
      return Status(TN_UNSUPPORTED, text("the fragment has ", count(), " nodes; a product takes ", most_nodes,
                                         " with it at most: cut it"));
    }
    for (uint32_t n = 0; n < count(); ++n) {
      if (fragment_.nodes()[n].op != TN_OP_matmul) continue;
      if (parts_.a != TN_ABSENT)
        return node(n).unsupported("a second product: each one is a kernel of its own");
      parts_.a = node(n).raw().inputs[0];
      parts_.b = node(n).raw().inputs[1];
      parts_.turn_a = node(n).integer("transpose_a") != 0;
      parts_.turn_b = node(n).integer("transpose_b") != 0;
      TN_TRY(check_operand(parts_.a));
      TN_TRY(check_operand(parts_.b));
      TN_TRY(go_on(n));
    }
    return {};
  }

  Status check_operand(uint32_t tensor) const {
    const uint32_t n = maker(tensor);
    if (n == TN_ABSENT) return {};
    return node(n).unsupported(
        "it makes an operand of a product, which reads operands from memory: compile it apart");
  }

  Status go_on(uint32_t n) {
    parts_.result = node(n).raw().outputs[0];
    taken_ |= uint64_t{1} << n;
    return {};
  }

  // The node that computes on with the value; a sum beside it does not.
  uint32_t reader() const noexcept {
    for (uint32_t n = 0; n < count(); ++n) {
      const tn_node& one = fragment_.nodes()[n];
      if (!taken(n) && one.op != TN_OP_sum && reads(one, parts_.result)) return n;
    }
    return TN_ABSENT;
  }

  Status take(uint32_t n) {
    const NodeView next = node(n);
    if (parts_.activation != Activation::none)
      return next.unsupported("a product computes nothing behind its activation: compile this apart");
    if (fragment_.tensor(parts_.a).dtype() == TN_DTYPE_f64)
      return next.unsupported("in f64 a product computes nothing else on its way: compile this apart");
    if (std::ranges::count_if(fragment_.nodes(), [&](const tn_node& o) { return reads(o, parts_.result); }) !=
        1)
      return next.unsupported("another node reads the same value, which a product does not keep");
    switch (next.op()) {
      case TN_OP_add:
        return take_add(n);
      case TN_OP_relu:
        return take_activation(n, Activation::relu);
      case TN_OP_gelu:
        return take_activation(n, Activation::gelu);
      case TN_OP_gelu_grad:
        return take_gradient(n);
      case TN_OP_dropout:
        return next.unsupported("cuBLASLt draws no numbers: dropout behind a product is a kernel of its own");
      case TN_OP_relu_grad:
        return next.unsupported(
            "cuBLASLt takes relu's gradient from a mask of bits, and then takes longer than a kernel for it: "
            "compile it apart");
      default:
        return next.unsupported("a product does not compute this on its way: compile it apart");
    }
  }

  Status refuse_kept(uint32_t n) const {
    if (!is_output(parts_.result)) return {};
    return node(n).unsupported("its input is wanted too, which a product does not keep: compile it apart");
  }

  Status take_add(uint32_t n) {
    const NodeView next = node(n);
    TN_TRY(refuse_kept(n));
    const uint32_t* const in = next.raw().inputs;
    const uint32_t other = in[in[0] == parts_.result ? 1 : 0];
    const TensorView result = fragment_.tensor(parts_.result), added = fragment_.tensor(other);
    if (other == parts_.result || is_made_here(other))
      return next.unsupported("it adds a value of this fragment: compile it apart");
    const uint32_t axis = vector_axis(added, result);
    if (parts_.bias == TN_ABSENT && axis != TN_ABSENT && author::same_dims(next.out(0), result)) {
      parts_.bias = other;
      parts_.axis = axis;
    } else if (parts_.residual == TN_ABSENT && author::same_dims(added, result)) {
      parts_.residual = other;
    } else {
      return next.unsupported(text("it adds ", author::words(added.dims()), " to ",
                                   author::words(result.dims()),
                                   ": a product adds one vector along its rows or columns, and one tensor "
                                   "of its own dims"));
    }
    return go_on(n);
  }

  Status check_form(uint32_t n) const {
    if (node(n).integer("tanh") != 0) return {};
    return node(n).unsupported(
        "cuBLASLt computes gelu by its tanh form only, and this one is x·Φ(x): compile it apart, or set "
        "tanh = 1");
  }

  Status take_activation(uint32_t n, Activation activation) {
    if (activation == Activation::gelu) {
      TN_TRY(check_form(n));
      if (is_output(parts_.result)) parts_.aux = parts_.result;
    } else {
      TN_TRY(refuse_kept(n));
    }
    parts_.activation = activation;
    return go_on(n);
  }

  Status take_gradient(uint32_t n) {
    const NodeView next = node(n);
    TN_TRY(check_form(n));
    TN_TRY(refuse_kept(n));
    const uint32_t* const in = next.raw().inputs;
    if (in[0] != parts_.result || in[1] == parts_.result || is_made_here(in[1]))
      return next.unsupported("a product is the gradient that comes in, and gelu's input is bound");
    if (parts_.bias != TN_ABSENT || parts_.residual != TN_ABSENT)
      return next.unsupported("between a product and gelu's gradient nothing is added: compile it apart");
    if (!author::same_dims(next.in(1), next.in(0)))
      return next.unsupported("gelu's input has other dims than the product: broadcast it apart");
    parts_.aux = in[1];
    parts_.activation = Activation::gelu_grad;
    return go_on(n);
  }

  // Bit i: axis i is summed over.
  static uint32_t axes_of(const NodeView& sum) noexcept {
    uint32_t out = 0;
    const auto rank = static_cast<int64_t>(sum.in(0).rank());
    for (const int64_t axis : sum.integers("axes")) out |= 1u << (axis < 0 ? axis + rank : axis);
    return out;
  }

  Status take_sum(uint32_t n) {
    const NodeView sum = node(n);
    const uint32_t from = sum.raw().inputs[0], rank = sum.in(0).rank(), all = (1u << rank) - 1;
    if (parts_.sums != TN_ABSENT) return sum.unsupported("a product makes one vector of sums");
    if (sum.in(0).dtype() == TN_DTYPE_f64)
      return sum.unsupported("in f64 a product sums nothing else on its way: compile this apart");
    const uint32_t left = ~axes_of(sum) & all;
    if (from == parts_.result && parts_.activation == Activation::gelu_grad) {
      if (std::popcount(left) != 1 || left < 1u << (rank - 2))
        return sum.unsupported(
            "a product sums its result along all dims but the last, or but the one before");
      parts_.axis = static_cast<uint32_t>(std::countr_zero(left));
    } else if (from == parts_.a || from == parts_.b) {
      const bool turned = from == parts_.a ? !parts_.turn_a : parts_.turn_b;
      if (rank != 2 || parts_.activation != Activation::none || parts_.bias != TN_ABSENT ||
          parts_.residual != TN_ABSENT || axes_of(sum) != (turned ? 2u : 1u))
        return sum.unsupported(
            "a plain product of two matrices sums an operand along the dim that both share");
    } else {
      return sum.unsupported("a product does not sum this on its way: compile it apart");
    }
    parts_.summed = from;
    parts_.sums = sum.raw().outputs[0];
    taken_ |= uint64_t{1} << n;
    return {};
  }

  Status check_nodes() const {
    for (uint32_t n = 0; n < count(); ++n) {
      if (!taken(n)) return node(n).unsupported("it has no part in the product: compile it apart");
    }
    return {};
  }

  Status check_outputs() const {
    for (const uint32_t tensor : fragment_.outputs()) {
      if (tensor == parts_.result || tensor == parts_.sums || tensor == parts_.aux) continue;
      return Status(TN_UNSUPPORTED,
                    text("tensor ", tensor, " is an output that no part of the product writes"));
    }
    if (is_output(parts_.result)) return {};
    return Status(TN_UNSUPPORTED,
                  text("tensor ", parts_.result, ", the product, is no output of the fragment"));
  }

  const FragmentView& fragment_;
  ProductParts parts_{};
  uint64_t taken_ = 0;
};

}  // namespace

bool has_product(const FragmentView& fragment) noexcept {
  return std::ranges::any_of(fragment.nodes(), [](const tn_node& n) { return n.op == TN_OP_matmul; });
}

Result<ProductParts> parts_of(const FragmentView& fragment) { return PartSearch(fragment).run(); }

}  // namespace tenon::cuda
