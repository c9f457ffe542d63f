// SPDX-License-Identifier: Apache-2.0
// shapes_network.cpp: the shapes of layers: windows, normalisations, attention, optimizers.
#include "rules.hpp"

#include <tenon/author/text.hpp>

namespace tenon::sim {

using author::text;

// The result [N, channels, P, Q] of a window of sizes [·, ·, R, S] over x.
Result<Dims> Inquiry::slide(const Dims& x, int64_t channels, const Dims& sizes) const {
  const bool dilated = author::attribute(node_, "dilation") != nullptr;
  const Dims pad = integers("pad"), stride = integers("stride"),
             dilation = dilated ? integers("dilation") : Dims{1, 1};
  if (pad.size() != 4 || stride.size() != 2 || dilation.size() != 2 || sizes.size() < 2)
    return malformed("pad has 4 numbers, stride, dilation and kernel have 2");
  Dims result{x[0], channels, 0, 0};
  for (size_t i = 0; i < 2; ++i) {
    const int64_t kernel = sizes[sizes.size() - 2 + i], span = dilation[i] * (kernel - 1) + 1;
    const int64_t room = x[2 + i] + pad[i] + pad[2 + i] - span;
    if (stride[i] < 1 || dilation[i] < 1 || kernel < 1 || pad[i] < 0 || pad[2 + i] < 0 || room < 0)
      return malformed(text("a window of ", kernel, " (dilation ", dilation[i], ", stride ", stride[i],
                            ") does not fit ", x[2 + i], " places padded by ", pad[i], " and ", pad[2 + i]));
    result[2 + i] = room / stride[i] + 1;
  }
  return result;
}

Status Inquiry::check_conv() const {
  TN_TRY(expect_rank(0, 4));
  TN_TRY(expect_rank(1, 4));
  const bool data = node_.op == TN_OP_conv2d_grad_data, weight = node_.op == TN_OP_conv2d_grad_weight;
  const Dims x = data ? integers("input_shape") : dims(0), w = weight ? integers("weight_shape") : dims(1);
  const int64_t groups = integer("groups");
  if (x.size() != 4 || w.size() != 4) return malformed("input_shape and weight_shape have 4 numbers");
  if (groups < 1 || w[0] % groups != 0 || x[1] != w[1] * groups)
    return malformed(text(groups, " groups do not divide x ", words(x), " and w ", words(w)));
  const Dims y = TN_TRY(slide(x, w[0], w));
  if (data) TN_TRY(expect_input(0, y));
  if (weight) TN_TRY(expect_input(1, y));
  return expect(0, data ? x : weight ? w : y);
}

Status Inquiry::check_pool() const {
  TN_TRY(expect_rank(0, 4));
  if (node_.op == TN_OP_global_pool) return expect(0, {dims(0)[0], dims(0)[1], 1, 1});
  const bool max_grad = node_.op == TN_OP_max_pool_grad, avg_grad = node_.op == TN_OP_avg_pool_grad;
  if (max_grad) TN_TRY(expect_rank(1, 4));
  const Dims x = max_grad ? dims(1) : avg_grad ? integers("input_shape") : dims(0);
  if (x.size() != 4) return malformed("input_shape has 4 numbers");
  const Dims y = TN_TRY(slide(x, x[1], integers("kernel")));
  if (!max_grad && !avg_grad) return expect(0, y);
  TN_TRY(expect_input(0, y));
  return expect(0, x);
}

// Batch norm: operands are of x's shape or have one element per channel.
Status Inquiry::check_channels() const {
  if (in(0).rank() < 2) return malformed(text("takes [N, C, …], not ", words(dims(0))));
  const Dims x = dims(0), channel{x[1]};
  const size_t whole = node_.op == TN_OP_batch_norm_grad || node_.op == TN_OP_batch_norm_grad_stats ||
                               node_.op == TN_OP_batch_norm_grad_apply
                           ? 2
                           : 1;
  const bool statistics = node_.op == TN_OP_batch_norm_stats || node_.op == TN_OP_batch_norm_grad_stats;
  for (size_t i = 1; i < inputs(); ++i) {
    if (node_.op == TN_OP_batch_norm_grad_apply && i == 7)
      TN_TRY(expect_input(i, {}));
    else
      TN_TRY(expect_input(i, i < whole ? x : channel));
  }
  for (size_t i = 0; i < node_.output_count; ++i) TN_TRY(expect(i, i == 0 && !statistics ? x : channel));
  return {};
}

// Layer and RMS norm: parameters have the last dims, statistics the others.
Status Inquiry::check_rows() const {
  const Dims x = dims(0);
  const int64_t axes = integer("axes");
  if (axes < 1 || axes > static_cast<int64_t>(x.size()))
    return malformed(text("normalises the last ", axes, " dims of ", words(x)));
  const Dims outer(x.begin(), x.end() - axes), inner(x.end() - axes, x.end());
  const bool grad = node_.op == TN_OP_layer_norm_grad || node_.op == TN_OP_rms_norm_grad;
  if (grad) TN_TRY(expect_input(1, x));
  const size_t first = grad ? 2 : 1, statistics = 3;
  for (size_t i = first; i < inputs(); ++i) TN_TRY(expect_input(i, i < statistics ? inner : outer));
  TN_TRY(expect(0, x));
  for (size_t i = 1; i < node_.output_count; ++i) TN_TRY(expect(i, grad ? inner : outer));
  return {};
}

Status Inquiry::check_attention() const {
  const bool grad = node_.op == TN_OP_attention_grad;
  const size_t q = grad ? 1 : 0, mask = grad ? 6 : 3;
  for (size_t i = q; i < q + 3; ++i) TN_TRY(expect_rank(i, 4));
  const Dims query = dims(q), key{query[0], query[1], dims(q + 1)[2], query[3]};
  const Dims rows(query.begin(), query.end() - 1);
  TN_TRY(expect_input(q + 1, key));
  TN_TRY(expect_input(q + 2, key));
  if (has(mask)) {
    const Dims scores{query[0], query[1], query[2], key[2]};
    if (TN_TRY(broadcast({dims(mask), scores})) != scores)
      return malformed(text("mask ", words(dims(mask)), " does not broadcast to ", words(scores)));
  }
  if (!grad) {
    TN_TRY(expect(0, query));
    return expect(1, rows);
  }
  TN_TRY(expect_input(0, query));
  TN_TRY(expect_input(4, query));
  TN_TRY(expect_input(5, rows));
  TN_TRY(expect(0, query));
  TN_TRY(expect(1, key));
  return expect(2, key);
}

Status Inquiry::check_update() const {
  if (node_.op == TN_OP_update_loss_scaling) {
    for (size_t i = 0; i < node_.output_count; ++i) TN_TRY(expect(i, {}));
    return scalars(0);
  }
  if (node_.op == TN_OP_check_finite_and_unscale) {
    TN_TRY(expect_input(0, {}));
    TN_TRY(expect(0, {}));
    for (size_t i = 1; i < node_.output_count; ++i) TN_TRY(expect(i, i < inputs() ? dims(i) : Dims{}));
    return node_.output_count <= inputs() ? Status() : malformed("has more outputs than inputs");
  }
  const bool adam = node_.op == TN_OP_adam || node_.op == TN_OP_adamw;
  const size_t states = adam ? 2 : node_.op == TN_OP_momentum ? 1 : 0, rate = 2 + states;
  const size_t master = rate + (adam ? 2 : 1);
  for (size_t i = 1; i < inputs(); ++i) TN_TRY(expect_input(i, i < rate || i == master ? dims(0) : Dims{}));
  for (size_t i = 0; i < node_.output_count; ++i) TN_TRY(expect(i, dims(0)));
  return {};
}

}  // namespace tenon::sim
