// SPDX-License-Identifier: Apache-2.0
// attention.cpp: from an attention node to operands that its kernels take.
//
// Invariant: an operand that a kernel does not read as it lies is first copied to dense memory of its type.
#include "attention.hpp"

#include "attention_backward.hpp"
#include "attention_bf16.hpp"
#include "attention_forward.hpp"
#include "tiles.hpp"

#include <tenon/author/node_view.hpp>

namespace tenon::cpu {
namespace {

using author::NodeView;

bool has_unit_rows(const TensorView& tensor) {
  const uint32_t last = tensor.rank() - 1;
  return tensor.dims()[last] <= 1 || tensor.strides()[last] == 1;
}

HeadRows head_rows(const Place& place, std::span<const int64_t> strides) {
  return {.place = place, .batch = strides[0], .head = strides[1], .row = strides[2]};
}

class AttentionLowering {
 public:
  // Operands are brought to `own`, a mask to `masks`.
  AttentionLowering(Builder& builder, const NodeView& node, uint32_t own, uint32_t masks)
      : builder_(builder), node_(node), own_(own), masks_(masks) {
    const uint32_t q = node.op() == TN_OP_attention_grad ? 1 : 0;
    const auto query = node.dims(q);
    form_ = {.batch = query[0],
             .heads = query[1],
             .queries = query[2],
             .keys = node.dims(q + 1)[2],
             .width = query[3],
             .scale = node.real("scale"),
             .causal = node.integer("causal") != 0};
  }

  using Make = std::unique_ptr<Step> (*)(const AttentionForm&, const AttentionOperands&, Builder&, unsigned);
  Status forward(Make make, unsigned threads) {
    AttentionOperands operands;
    operands.q = TN_TRY(read(0));
    operands.k = TN_TRY(read(1));
    operands.v = TN_TRY(read(2));
    operands.y = write(0);
    operands.log = logarithms(node_.gives(1) ? node_.raw().outputs[1] : TN_ABSENT, true);
    TN_TRY(read_mask(3));
    builder_.add(make(form_, operands, builder_, threads));
    return flush();
  }

  // `whole` is how many elements rows that are read in whole vectors are a multiple of.
  using MakeGrad = std::unique_ptr<Step> (*)(const AttentionForm&, const AttentionGradOperands&, Builder&,
                                             unsigned);
  Status backward(MakeGrad make, uint32_t whole, unsigned threads) {
    AttentionGradOperands operands;
    operands.dy = TN_TRY(read_padded(0, whole));
    operands.q = TN_TRY(read_padded(1, whole));
    operands.k = TN_TRY(read_padded(2, whole));
    operands.v = TN_TRY(read(3));
    operands.y = TN_TRY(read(4));
    operands.log = logarithms(node_.raw().inputs[5], false);
    operands.dq = write(0);
    operands.dk = write(1);
    operands.dv = write(2);
    TN_TRY(read_mask(6));
    builder_.add(make(form_, operands, builder_, threads));
    return flush();
  }

 private:
  // The operand as it lies, or a dense copy.
  Result<HeadRows> read(uint32_t input) {
    const TensorView tensor = node_.in(input);
    const Place place = builder_.place(node_.raw().inputs[input]);
    if (tensor.dtype() == own_ && has_unit_rows(tensor)) return head_rows(place, tensor.strides());
    return head_rows(TN_TRY(dense_copy(place, tensor, own_)), dense_strides(tensor.dims()));
  }

  Result<HeadRows> read_padded(uint32_t input, uint32_t whole) {
    if (form_.width % whole == 0) return read(input);
    const TensorView tensor = node_.in(input);
    std::array<int64_t, 4> dims{};
    std::copy_n(tensor.dims().begin(), 4, dims.begin());
    dims[3] = (form_.width + whole - 1) / whole * whole;
    const auto strides = dense_strides(dims);
    const uint64_t elements = static_cast<uint64_t>(strides[0] * dims[0]);
    const Place copy = builder_.scratch(author::dtype_bytes(own_, elements));
    const View rows(own_, tensor.dims(), {strides.data(), 4});
    builder_.add(TN_TRY(copy_step(builder_.place(node_.raw().inputs[input]), View(tensor), copy, rows)));
    return head_rows(copy, strides);
  }

  Result<Place> dense_copy(const Place& place, const TensorView& tensor, uint32_t dtype) {
    const Place copy = builder_.scratch(author::dtype_bytes(dtype, tensor.elements()));
    builder_.add(TN_TRY(copy_step(place, View(tensor), copy, View::dense(dtype, tensor.elements()))));
    return copy;
  }

  // Where a result is to be written: its own place, or a dense one that `flush` copies from.
  HeadRows write(uint32_t output) {
    if (!node_.gives(output)) return {};
    const TensorView tensor = node_.out(output);
    const Place place = builder_.output_place(node_.raw().outputs[output]);
    if (tensor.dtype() == own_ && has_unit_rows(tensor)) return head_rows(place, tensor.strides());
    const Place dense = builder_.scratch(author::dtype_bytes(own_, tensor.elements()));
    pending_.push_back({dense, place, tensor});
    return head_rows(dense, dense_strides(tensor.dims()));
  }

  HeadRows logarithms(uint32_t tensor, bool written) {
    if (tensor == TN_ABSENT) return {};
    const Place place = written ? builder_.output_place(tensor) : builder_.place(tensor);
    return head_rows(place, builder_.fragment().tensor(tensor).strides());
  }

  // The mask with its broadcast dims repeated by strides of 0.
  Status read_mask(uint32_t input) {
    if (!node_.has(input)) return {};
    const TensorView tensor = node_.in(input);
    Place place = builder_.place(node_.raw().inputs[input]);
    std::array<int64_t, TN_MAX_RANK> strides = tensor.strides();
    if (tensor.dtype() != masks_) {
      place = TN_TRY(dense_copy(place, tensor, masks_));
      strides = dense_strides(tensor.dims());
    }
    std::array<int64_t, 4> steps{};
    for (uint32_t i = 0; i < tensor.rank(); ++i) {
      if (tensor.dims()[i] != 1) steps[4 - tensor.rank() + i] = strides[i];
    }
    form_.mask = head_rows(place, steps);
    form_.mask_key = steps[3];
    return {};
  }

  Status flush() {
    for (const Pending& one : pending_) {
      const View from = View::dense(own_, one.tensor.elements());
      builder_.add(TN_TRY(copy_step(one.from, from, one.to, View(one.tensor))));
    }
    return {};
  }

  struct Pending {
    Place from, to;
    TensorView tensor;
  };

  Builder& builder_;
  const NodeView& node_;
  uint32_t own_, masks_;
  AttentionForm form_{};
  std::vector<Pending> pending_;
};

template <class T>
Status lower(Builder& builder, const NodeView& node, uint32_t dtype, unsigned threads) {
  AttentionLowering lowering(builder, node, dtype, dtype);
  if (node.op() == TN_OP_attention) return lowering.forward(attention_step<T>, threads);
  return lowering.backward(attention_grad_step<T>, lanes<T>, threads);
}

}  // namespace

Status build_attention(Builder& builder, const tn_node& node, unsigned threads) {
  const auto index = static_cast<uint32_t>(&node - builder.fragment().nodes().data());
  const NodeView view(builder.fragment(), index);
  const uint32_t dtype = attention_multiplies_in(builder.fragment(), node);
  if (dtype == TN_DTYPE_f64) return lower<double>(builder, view, TN_DTYPE_f64, threads);
  if (dtype == TN_DTYPE_bf16) {
    AttentionLowering lowering(builder, view, TN_DTYPE_bf16, TN_DTYPE_f32);
    return lowering.forward(attention_tiles_step, threads);
  }
  return lower<float>(builder, view, TN_DTYPE_f32, threads);
}

double attention_flops(const FragmentView& fragment, const tn_node& node) {
  const bool grad = node.op == TN_OP_attention_grad;
  const auto query = fragment.tensor(node.inputs[grad ? 1 : 0]).dims();
  const auto keys = fragment.tensor(node.inputs[grad ? 2 : 1]).dims()[2];
  const double products = grad ? 5 : 2;
  double out = 2 * products * static_cast<double>(keys);
  for (const int64_t dim : query) out *= static_cast<double>(dim);
  return out;
}

uint32_t attention_multiplies_in(const FragmentView& fragment, const tn_node& node) {
  const uint32_t dtype = fragment.tensor(node.inputs[0]).dtype();
  const bool in_halves = dtype == TN_DTYPE_bf16 && node.op == TN_OP_attention && multiplies_bf16();
  return in_halves ? dtype : attention_dtype(dtype);
}

uint32_t attention_dtype(uint32_t dtype) noexcept {
  return dtype == TN_DTYPE_f64 ? dtype : static_cast<uint32_t>(TN_DTYPE_f32);
}

}  // namespace tenon::cpu
