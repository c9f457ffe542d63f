// SPDX-License-Identifier: Apache-2.0
// op_shapes_network.hpp: the shape column of ops.def for layers (windows, normalisations, losses, attention), updates
// of parameters and collectives as nodes.
//
// Invariant: as in op_shapes.hpp, nothing overflows: a window's numbers are held below 2^31 first.
#pragma once

#include <tenon/author/op_shapes.hpp>
#include <tenon/author/op_update.hpp>

namespace tenon::author::detail {

// One direction of a window that slides over an image.
struct Window {
  int64_t places, before, after, kernel, stride, dilation;

  Result<int64_t> count(const NodeView& node) const {
    constexpr int64_t most = INT32_MAX;
    const bool sane = kernel >= 1 && stride >= 1 && dilation >= 1 && before >= 0 && after >= 0 &&
                      kernel <= most && dilation <= most && before <= most && after <= most &&
                      places <= INT64_MAX / 4;
    const int64_t room = sane ? places + before + after - dilation * (kernel - 1) - 1 : -1;
    if (room >= 0) return room / stride + 1;
    return node.malformed(text("a window of ", kernel, " (dilation ", dilation, ", stride ", stride,
                               ") does not fit ", places, " places padded by ", before, " and ", after));
  }
};

// The result [N, channels, P, Q] of a window of sizes [·, ·, R, S] over x.
inline Result<DimList> slide(const NodeView& node, std::span<const int64_t> x, int64_t channels,
                             std::span<const int64_t> sizes) {
  static constexpr int64_t whole[] = {1, 1};
  const bool dilated = attribute(node.raw(), "dilation") != nullptr;
  const std::span<const int64_t> pad = node.integers("pad"), stride = node.integers("stride"),
                                 dilation = dilated ? node.integers("dilation") : std::span(whole);
  if (pad.size() != 4 || stride.size() != 2 || dilation.size() != 2 || sizes.size() < 2)
    return node.malformed("pad has 4 numbers; stride, dilation and kernel have 2");
  DimList result{x[0], channels};
  for (size_t i = 0; i < 2; ++i) {
    const Window window{.places = x[2 + i],
                        .before = pad[i],
                        .after = pad[2 + i],
                        .kernel = sizes[sizes.size() - 2 + i],
                        .stride = stride[i],
                        .dilation = dilation[i]};
    result.push_back(TN_TRY(window.count(node)));
  }
  return result;
}

inline Status check_conv(const NodeView& node) {
  TN_TRY(expect_rank(node, 0, 4));
  TN_TRY(expect_rank(node, 1, 4));
  const bool data = node.op() == TN_OP_conv2d_grad_data, weight = node.op() == TN_OP_conv2d_grad_weight;
  const std::span<const int64_t> x = data ? node.integers("input_shape") : node.dims(0),
                                 w = weight ? node.integers("weight_shape") : node.dims(1);
  const int64_t groups = node.integer("groups");
  if (x.size() != 4 || w.size() != 4) return node.malformed("input_shape and weight_shape have 4 numbers");
  if (groups < 1 || w[0] % groups != 0 || x[1] % groups != 0 || x[1] / groups != w[1])
    return node.malformed(text(groups, " groups do not divide x ", words(x), " and w ", words(w)));
  const DimList y = TN_TRY(slide(node, x, w[0], w));
  if (data) TN_TRY(expect_input(node, 0, y));
  if (weight) TN_TRY(expect_input(node, 1, y));
  return expect(node, 0, data ? x : weight ? w : std::span<const int64_t>(y));
}

inline Status check_pool(const NodeView& node) {
  TN_TRY(expect_rank(node, 0, 4));
  if (node.op() == TN_OP_global_pool) return expect(node, 0, DimList{node.dims(0)[0], node.dims(0)[1], 1, 1});
  const bool max_grad = node.op() == TN_OP_max_pool_grad, avg_grad = node.op() == TN_OP_avg_pool_grad;
  if (max_grad) TN_TRY(expect_rank(node, 1, 4));
  const std::span<const int64_t> x = max_grad   ? node.dims(1)
                                     : avg_grad ? node.integers("input_shape")
                                                : node.dims(0);
  if (x.size() != 4) return node.malformed("input_shape has 4 numbers");
  if (node.integers("kernel").size() != 2) return node.malformed("kernel has 2 numbers");
  const DimList y = TN_TRY(slide(node, x, x[1], node.integers("kernel")));
  if (!max_grad && !avg_grad) return expect(node, 0, y);
  TN_TRY(expect_input(node, 0, y));
  return expect(node, 0, x);
}

// Batch norm: operands are of x's shape or have one element for each channel.
inline Status check_channels(const NodeView& node) {
  const uint32_t op = node.op();
  const std::span<const int64_t> x = node.dims(0);
  if (x.size() < 2) return node.malformed(text("takes [N, C, …], not ", words(x)));
  const std::span<const int64_t> channel = x.subspan(1, 1);
  const bool grad =
      op == TN_OP_batch_norm_grad || op == TN_OP_batch_norm_grad_stats || op == TN_OP_batch_norm_grad_apply;
  for (uint32_t i = 1; i < node.inputs(); ++i) {
    const bool count = op == TN_OP_batch_norm_grad_apply && i == 7;
    TN_TRY(expect_input(node, i, grad && i == 1 ? x : count ? std::span<const int64_t>() : channel));
  }
  const bool statistics = op == TN_OP_batch_norm_stats || op == TN_OP_batch_norm_grad_stats;
  for (uint32_t i = 0; i < node.outputs(); ++i) TN_TRY(expect(node, i, i == 0 && !statistics ? x : channel));
  return {};
}

// Layer and RMS norm: parameters have the last dims, statistics the others.
inline Status check_rows(const NodeView& node) {
  const std::span<const int64_t> x = node.dims(0);
  const int64_t axes = node.integer("axes");
  if (axes < 1 || axes > static_cast<int64_t>(x.size()))
    return node.malformed(text("normalises the last ", axes, " dims of ", words(x)));
  const std::span<const int64_t> inner = x.last(static_cast<size_t>(axes)),
                                 outer = x.first(x.size() - inner.size());
  const bool grad = node.op() == TN_OP_layer_norm_grad || node.op() == TN_OP_rms_norm_grad;
  if (grad) TN_TRY(expect_input(node, 1, x));
  for (uint32_t i = grad ? 2 : 1; i < node.inputs(); ++i)
    TN_TRY(expect_input(node, i, grad && i > 2 ? outer : inner));
  TN_TRY(expect(node, 0, x));
  for (uint32_t i = 1; i < node.outputs(); ++i) TN_TRY(expect(node, i, grad ? inner : outer));
  return {};
}

inline Status check_loss(const NodeView& node) {
  TN_TRY(expect_rank(node, 0, 2));
  const std::span<const int64_t> rows = node.dims(0).first(1);
  TN_TRY(expect_input(node, 1, rows));
  TN_TRY(expect(node, 0, rows));
  return expect(node, 1, rows);
}

inline Status check_attention(const NodeView& node) {
  const bool grad = node.op() == TN_OP_attention_grad;
  const uint32_t q = grad ? 1 : 0, mask = grad ? 6 : 3;
  for (uint32_t i = q; i < q + 3; ++i) TN_TRY(expect_rank(node, i, 4));
  const std::span<const int64_t> query = node.dims(q), rows = query.first(3);
  const DimList key{query[0], query[1], node.dims(q + 1)[2], query[3]};
  TN_TRY(expect_input(node, q + 1, key));
  TN_TRY(expect_input(node, q + 2, key));
  if (node.has(mask)) {
    const DimList scores{query[0], query[1], query[2], key[2]};
    DimList joint = scores;
    const bool lower = node.in(mask).rank() <= 4;
    if (lower) TN_TRY(join(node, joint, node.dims(mask)));
    if (!lower || !same_dims(joint, scores))
      return node.malformed(text("mask ", words(node.dims(mask)), " does not broadcast to ", words(scores)));
  }
  if (!grad) {
    TN_TRY(expect(node, 0, query));
    return expect(node, 1, rows);
  }
  TN_TRY(expect_input(node, 0, query));
  TN_TRY(expect_input(node, 4, query));
  TN_TRY(expect_input(node, 5, rows));
  TN_TRY(expect(node, 0, query));
  TN_TRY(expect(node, 1, key));
  return expect(node, 2, key);
}

// Weights, gradients and states are of one shape, the rest are scalars; an output is of the shape of what it renews.
inline Status check_update(const NodeView& node) {
  const uint32_t op = node.op();
  const bool optimizer = op_row(op).family == "OPTIMIZER";
  const OptimizerForm form = optimizer_form(op);
  const std::span<const int64_t> scalar;
  for (uint32_t i = 0; i < node.inputs(); ++i) {
    const bool whole = optimizer && (i < form.rate() || i == form.master());
    const bool gradient = op == TN_OP_check_finite_and_unscale && i > 0;
    if (!gradient) TN_TRY(expect_input(node, i, whole ? node.dims(0) : scalar));
  }
  for (uint32_t i = 0; i < node.outputs(); ++i) {
    if (!node.gives(i)) continue;
    const uint32_t from = renewed_input(op, i);
    if (from != TN_ABSENT && !node.has(from))
      return node.malformed(text("output ", i, " renews input ", from, ", which is absent"));
    TN_TRY(expect(node, i, from == TN_ABSENT ? scalar : node.dims(from)));
  }
  return {};
}

// all_gather and reduce_scatter: only the communicator knows how many ranks there are, so one dim 0 has to divide the other.
inline Status check_part(const NodeView& node, std::span<const int64_t> part,
                         std::span<const int64_t> whole) {
  const bool fits = !part.empty() && part.size() == whole.size() &&
                    same_dims(part.subspan(1), whole.subspan(1)) &&
                    (part[0] == 0 ? whole[0] == 0 : whole[0] % part[0] == 0);
  if (fits) return {};
  return node.malformed(text(words(part), " is no part of ", words(whole), " along dim 0"));
}

}  // namespace tenon::author::detail
