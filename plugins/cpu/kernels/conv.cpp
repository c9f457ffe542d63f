// SPDX-License-Identifier: Apache-2.0
// conv.cpp: from a convolution node, and its epilogue, to figures that an engine takes.
//
// f32 and bf16 are computed as they are (conv_ways.cpp); f16, and bf16 where the processor lacks AVX-512 or may not use it,
// are computed in f32; f64 runs in plain loops.
// Invariant: an operand that no engine reads as it lies is first copied to dense memory in the workspace, and channels stay
// last there when they were.
#include "conv.hpp"

#include "epilogue.hpp"
#include "matmul.hpp"
#include "tiles.hpp"

namespace tenon::cpu {
namespace {

Four four(std::span<const int64_t> numbers) noexcept {
  return {numbers[0], numbers[1], numbers[2], numbers[3]};
}

bool is_expanded(const Four& dims, const Four& strides) noexcept {
  for (size_t i = 0; i < 4; ++i) {
    if (dims[i] > 1 && strides[i] == 0) return true;
  }
  return false;
}

class Lowering {
 public:
  Lowering(Builder& builder, uint32_t at, unsigned threads)
      : builder_(builder),
        node_(builder.fragment().nodes()[at]),
        epilogue_(epilogue_of(builder.fragment(), at)),
        threads_(threads) {}

  Status build() {
    const TensorView made = tensor(epilogue_.result);
    const Place result = builder_.output_place(epilogue_.result);
    if (made.elements() == 0) return {};
    if (tensor(node_.inputs[0]).elements() == 0 || tensor(node_.inputs[1]).elements() == 0)
      return build_zeros(made, result);
    if (made.dtype() == TN_DTYPE_f64) {
      builder_.add(plain_conv(given(result)));
      return {};
    }
    const uint32_t first = matmul_dtype(made.dtype());
    Status built = build_fast(first, result);
    if (built.code() == TN_UNSUPPORTED && first != TN_DTYPE_f32) {
      pending_.clear();
      built = build_fast(TN_DTYPE_f32, result);
    }
    if (!built.ok()) return built;
    for (auto& step : pending_) builder_.add(std::move(step));
    return {};
  }

 private:
  TensorView tensor(uint32_t index) const { return builder_.fragment().tensor(index); }

  // A sum of nothing is 0.
  Status build_zeros(TensorView made, const Place& result) {
    TileBuilder tiles(made.elements());
    tiles.store(tiles.constant(class_of(made.dtype()), 0), result, View(made), false);
    builder_.add(TN_TRY(tiles.finish()));
    return {};
  }

  ConvTensor conv_tensor(uint32_t index, const Place& place) const {
    const TensorView view = tensor(index);
    return {
        .place = place, .dtype = view.dtype(), .dims = four(view.dims()), .strides = four(view.strides())};
  }

  // The node as it stands, everything where it is.
  Conv given(const Place& result) const {
    const auto pair = [&](const char* name) {
      const auto numbers = *author::attribute_i64s(node_, name);
      return std::array<int64_t, 2>{numbers[0], numbers[1]};
    };
    const auto pad = *author::attribute_i64s(node_, "pad");
    Conv conv{.op = node_.op,
              .groups = *author::attribute_i64(node_, "groups"),
              .stride = pair("stride"),
              .dilation = pair("dilation"),
              .before = {pad[0], pad[1]},
              .after = {pad[2], pad[3]}};
    const ConvTensor a = conv_tensor(node_.inputs[0], builder_.place(node_.inputs[0])),
                     b = conv_tensor(node_.inputs[1], builder_.place(node_.inputs[1])),
                     c = conv_tensor(epilogue_.result, result);
    const bool data = conv.op == TN_OP_conv2d_grad_data, weight = conv.op == TN_OP_conv2d_grad_weight;
    conv.image = data ? c : a;
    conv.weights = weight ? c : b;
    conv.result = data ? a : weight ? b : c;
    return conv;
  }

  // Copies an input to a layout of `dtype` that engines read, unless it lies in one.
  Status make_readable(ConvTensor& operand, uint32_t dtype, bool is_image) {
    const Order order = order_of(operand.dims, operand.strides);
    const bool fits = is_image ? order != Order::other : !is_expanded(operand.dims, operand.strides);
    if (operand.dtype == dtype && fits) return {};
    ConvTensor copy = operand;
    copy.dtype = dtype;
    copy.strides = strides_in(is_image ? order : Order::channels_first, operand.dims);
    copy.place = room_for(copy);
    TN_TRY(copy_to(copy, operand));
    operand = copy;
    return {};
  }

  Place room_for(const ConvTensor& of) {
    uint64_t elements = 1;
    for (const int64_t dim : of.dims) elements *= static_cast<uint64_t>(dim);
    return builder_.scratch(author::dtype_bytes(of.dtype, elements));
  }
  Status copy_to(const ConvTensor& to, const ConvTensor& from) {
    pending_.push_back(TN_TRY(copy_step(from.place, View(from.dtype, from.dims, from.strides), to.place,
                                        View(to.dtype, to.dims, to.strides))));
    return {};
  }

  Status build_fast(uint32_t dtype, const Place& place) {
    Conv conv = given(place);
    ConvTensor& made = conv.made();
    const ConvTensor last = made;
    for (ConvTensor* operand : {&conv.image, &conv.weights, &conv.result}) {
      if (operand != &made) TN_TRY(make_readable(*operand, dtype, operand != &conv.weights));
    }
    const bool is_image = &made != &conv.weights;
    const Order order = order_of(made.dims, made.strides);
    const bool direct =
        made.dtype == dtype && (order == Order::channels_first || (is_image && order != Order::other));
    if (!direct) {
      made.dtype = dtype;
      made.strides = strides_in(is_image ? order : Order::channels_first, made.dims);
      made.place = room_for(made);
    }
    TN_TRY(finish(conv));
    TN_TRY(build_convolution(builder_, conv, threads_, pending_));
    return direct ? Status() : copy_to(last, made);
  }

  Status finish(Conv& conv) {
    conv.activation = epilogue_.activation;
    conv.variant = epilogue_.variant;
    if (epilogue_.bias != TN_ABSENT) {
      const TensorView bias = tensor(epilogue_.bias);
      conv.bias = builder_.place(epilogue_.bias);
      if (bias.dtype() != conv.result.dtype || !View(bias).contiguous()) {
        const View dense = View::dense(conv.result.dtype, bias.elements());
        const Place copy = builder_.scratch(author::dtype_bytes(conv.result.dtype, bias.elements()));
        pending_.push_back(TN_TRY(copy_step(conv.bias, View(bias), copy, dense)));
        conv.bias = copy;
      }
    }
    if (epilogue_.residual == TN_ABSENT) return {};
    const ConvTensor residual = conv_tensor(epilogue_.residual, builder_.place(epilogue_.residual));
    conv.residual = residual.place;
    const View wanted(conv.result.dtype, conv.result.dims, conv.result.strides);
    if (residual.dtype == conv.result.dtype &&
        View(residual.dtype, residual.dims, residual.strides).same_places(wanted))
      return {};
    ConvTensor copy = conv.result;
    conv.residual = copy.place = room_for(copy);
    return copy_to(copy, residual);
  }

  Builder& builder_;
  const tn_node& node_;
  Epilogue epilogue_;
  unsigned threads_;
  Steps pending_;  // added once the engine has said yes
};

}  // namespace

bool lies_in(Order order, const Four& dims, const Four& strides) noexcept {
  const Four dense = strides_in(order, dims);
  for (size_t i = 0; i < 4; ++i) {
    if (dims[i] != 1 && strides[i] != dense[i]) return false;
  }
  return true;
}

Order order_of(const Four& dims, const Four& strides) noexcept {
  for (const Order order : {Order::channels_first, Order::channels_last}) {
    if (lies_in(order, dims, strides)) return order;
  }
  return Order::other;
}

Four strides_in(Order order, const Four& dims) noexcept {
  const int64_t c = dims[1], h = dims[2], w = dims[3];
  if (order == Order::channels_last) return {h * w * c, 1, w * c, c};
  return {c * h * w, h * w, w, 1};
}

Status build_conv(Builder& builder, uint32_t first, uint32_t /*end*/, unsigned threads) {
  return Lowering(builder, first, threads).build();
}

}  // namespace tenon::cpu
