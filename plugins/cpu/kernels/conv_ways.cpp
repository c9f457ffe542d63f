// SPDX-License-Identifier: Apache-2.0
// conv_ways.cpp: the ways in which a convolution or a gradient of one is computed.
//
// A window of one pixel whose channels lie side by side is a product of matrices: of pixels by channels with the weights,
// or of two images turned to each other for the weights' gradient.
// Invariant: every way computes the same sums of the same operands, within the tolerance of conv2d.
#include "conv.hpp"
#include "gemm.hpp"
#include "search.hpp"

#include <tenon/author/text.hpp>

#include <algorithm>
#include <optional>

namespace tenon::cpu {

using author::text;

namespace {

enum class ConvWay { onednn, onednn_free, turned, product, tiles, strips };

const char* name_of(ConvWay way) noexcept {
  constexpr const char* names[] = {"onednn",         "onednn:free", "onednn:turned",
                                   "onednn:product", "amx",         "strips"};
  return names[static_cast<size_t>(way)];
}

bool channels_are_near(const ConvTensor& image) noexcept {
  return lies_in(Order::channels_last, image.dims, image.strides);
}

// Each pixel of the result sees one of the image.
bool is_pointwise(const Conv& conv) noexcept {
  constexpr std::array<int64_t, 2> one{1, 1}, none{};
  return conv.groups == 1 && conv.weights.dims[2] == 1 && conv.weights.dims[3] == 1 && conv.stride == one &&
         conv.before == none && conv.after == none && channels_are_near(conv.image) &&
         channels_are_near(conv.result);
}

// The convolution as a product, where it is one that engines take.
std::optional<Gemm> product_of(const Conv& conv) {
  if (!is_pointwise(conv)) return {};
  const Four& dims = conv.image.dims;
  const int64_t pixels = dims[0] * dims[2] * dims[3], in = dims[1], out = conv.result.dims[1];
  const auto matrix = [](const ConvTensor& of, int64_t row, int64_t column) {
    return GemmOperand{.place = of.place, .dtype = of.dtype, .row = row, .column = column};
  };
  const int64_t w_out = out == 1 ? in : conv.weights.strides[0], w_in = in == 1 ? 1 : conv.weights.strides[1];
  const GemmOperand image = matrix(conv.image, in, 1), result = matrix(conv.result, out, 1);
  Gemm gemm{.rows = pixels,
            .columns = out,
            .depth = in,
            .bias = conv.bias,
            .residual = conv.residual,
            .activation = conv.activation,
            .variant = conv.variant};
  switch (conv.op) {
    case TN_OP_conv2d:
      gemm.a = image, gemm.b = matrix(conv.weights, w_in, w_out), gemm.c = result;
      break;
    case TN_OP_conv2d_grad_data:
      gemm.columns = in, gemm.depth = out;
      gemm.a = result, gemm.b = matrix(conv.weights, w_out, w_in), gemm.c = image;
      break;
    default:
      gemm.rows = out, gemm.columns = in, gemm.depth = pixels;
      gemm.a = matrix(conv.result, 1, out), gemm.b = image, gemm.c = matrix(conv.weights, w_out, w_in);
      break;
  }
  return w_in == 1 && w_out >= in ? std::optional(gemm) : std::nullopt;
}

Status build(Builder& builder, const Conv& conv, ConvWay way, unsigned threads, Steps& steps) {
  switch (way) {
    case ConvWay::tiles:
      steps.push_back(amx_gemm(builder, *product_of(conv), threads));
      return {};
    case ConvWay::strips:
      strip_gemm(builder, *product_of(conv), threads, steps);
      return {};
    case ConvWay::product:
      return onednn_gemm(builder, *product_of(conv), true, threads, steps);
    case ConvWay::turned:
      return onednn_conv(builder, turned(builder, conv, steps), false, threads, steps);
    default:
      return onednn_conv(builder, conv, way == ConvWay::onednn_free, threads, steps);
  }
}

// Gradients of weights are where oneDNN 2.6 is slow: measured 1.5 to 6 times as fast as products on tiles.
bool suits_tiles(const Conv& conv) noexcept {
  constexpr int64_t least = 64;  // so that squares are full
  return conv.op == TN_OP_conv2d_grad_weight && std::min(conv.weights.dims[0], conv.weights.dims[1]) >= least;
}

// oneDNN's products are quicker than its windows of one pixel: of ResNet-50's twenty-four in f32 measured 1.07 times as fast on
// average, 0.96 to 1.29 times (`bench fusion`, conv_f32_*_1x1, on Zen 5). Halves are left to a search.
bool suits_product(const Conv& conv) noexcept {
  constexpr int64_t least = 64;  // channels
  return conv.image.dtype == TN_DTYPE_f32 && std::min(conv.weights.dims[0], conv.weights.dims[1]) >= least;
}

// Gradients of strided windows' weights are quicker there even from images whose channels lie side by side: f32 measured 1.1 and 1.5
// times as fast (Zen 4 and 5), halves as fast.
bool is_strided_gradient(const Conv& conv) noexcept {
  constexpr int64_t many = 16;  // channels that fill a register
  return conv.op == TN_OP_conv2d_grad_weight && conv.image.dtype == TN_DTYPE_f32 &&
         std::max(conv.stride[0], conv.stride[1]) > 1 && conv.weights.dims[2] * conv.weights.dims[3] > 1 &&
         std::min(conv.weights.dims[0], conv.weights.dims[1]) >= many;
}

// An image whose channels lie apart is computed by a product over copied windows, with a slow loop for an activation.
// Bringing it into the layout of a direct kernel and back was measured 1.3 to 9 times as fast, but where no window has to
// be copied, and for gradients of few channels.
bool suits_free(const Conv& conv) noexcept {
  constexpr int64_t few = 8;  // less than a register holds
  if (conv.groups != 1) return false;
  if (channels_are_near(conv.image)) return is_strided_gradient(conv);
  if (conv.op == TN_OP_conv2d_grad_data && conv.image.dims[1] < few) return false;
  return conv.weights.dims[2] * conv.weights.dims[3] > 1 || conv.activation != TN_OP_identity;
}

// Kernels that go forward take images whose channels lie side by side at their best: of f32 measured 1.0 to 1.3 times as fast as those
// that go back (`bench fusion`, conv_f32_backward_data without stride, on Zen 5). Halves are left to a search.
bool may_turn(const Conv& conv) noexcept {
  return can_turn(conv) && channels_are_near(conv.image) && channels_are_near(conv.result);
}

// The first is the table's.
std::vector<ConvWay> ways_of(const Conv& conv) {
  std::vector<ConvWay> out{ConvWay::onednn, ConvWay::onednn_free};
  if (suits_free(conv)) std::swap(out[0], out[1]);
  if (may_turn(conv)) out.insert(conv.image.dtype == TN_DTYPE_f32 ? out.begin() : out.end(), ConvWay::turned);
  const std::optional<Gemm> product = product_of(conv);
  if (product) out.insert(suits_product(conv) ? out.begin() : out.end(), ConvWay::product);
  if (product && has_amx_gemm(*product))
    out.insert(suits_tiles(conv) ? out.begin() : out.end(), ConvWay::tiles);
  if (product && has_strip_gemm(*product))
    out.insert(suits_strips(*product) ? out.begin() : out.end(), ConvWay::strips);
  return out;
}

std::string shape_of(const ConvTensor& of) {
  std::string out = of.place.kind == Place::Kind::constant ? " constant [" : " [";
  for (size_t i = 0; i < 4; ++i) out += text(i == 0 ? "" : "x", of.dims[i]);
  for (size_t i = 0; i < 4; ++i) out += text(i == 0 ? " by " : ",", of.strides[i]);
  return out + "]";
}

std::string key_of(const Conv& conv) {
  std::string out = text(author::op_name(conv.op), " ", author::dtype_name(conv.image.dtype));
  for (const ConvTensor* tensor : {&conv.image, &conv.weights, &conv.result}) out += shape_of(*tensor);
  const auto pair = [&](const char* name, const std::array<int64_t, 2>& numbers) {
    out += text(" ", name, " ", numbers[0], ",", numbers[1]);
  };
  pair("stride", conv.stride);
  pair("dilation", conv.dilation);
  pair("before", conv.before);
  pair("after", conv.after);
  out += text(" groups ", conv.groups);
  if (conv.bias != Place{}) out += " bias";
  if (conv.residual != Place{}) out += " residual";
  if (conv.activation != TN_OP_identity)
    out += text(" ", author::op_name(conv.activation), conv.variant ? ":tanh" : "");
  return out;
}

// The convolution on operands of a trial's own; constants stay what they are.
struct Trial {
  Conv conv;
  std::vector<uint64_t> bytes;

  explicit Trial(const Conv& given) : conv(given) {
    for (ConvTensor* tensor : {&conv.image, &conv.weights, &conv.result}) {
      if (tensor->place.kind != Place::Kind::constant) tensor->place = bound(bytes_of(*tensor));
    }
    if (given.bias != Place{})
      conv.bias = bound(author::dtype_bytes(given.result.dtype, static_cast<uint64_t>(given.result.dims[1])));
    if (given.residual != Place{}) conv.residual = bound(bytes_of(given.result));
  }

 private:
  Place bound(uint64_t size) {
    bytes.push_back(size);
    return Place::at_binding(static_cast<uint32_t>(bytes.size() - 1));
  }
  static uint64_t bytes_of(const ConvTensor& tensor) {
    int64_t last = 0;
    for (size_t i = 0; i < 4; ++i) last += (tensor.dims[i] - 1) * tensor.strides[i];
    return author::dtype_bytes(tensor.dtype, static_cast<uint64_t>(last) + 1);
  }
};

}  // namespace

Status build_convolution(Builder& builder, const Conv& conv, unsigned threads, Steps& steps) {
  const std::vector<ConvWay> ways = ways_of(conv);
  const Trial trial(conv);
  Problem problem{.key = key_of(conv), .binding_bytes = trial.bytes, .ways = {}};
  for (const ConvWay way : ways) {
    problem.ways.push_back({name_of(way), [&trial, way, threads](Builder& into, Steps& own) {
                              return build(into, trial.conv, way, threads, own);
                            }});
  }
  return build_best(builder, problem, steps,
                    [&](size_t way, Steps& own) { return build(builder, conv, ways[way], threads, own); });
}

}  // namespace tenon::cpu
