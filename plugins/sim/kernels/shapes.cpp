// SPDX-License-Identifier: Apache-2.0
// shapes.cpp: the shape column of ops.def: what each op's operands must be, and what its results then are.
#include "rules.hpp"

#include <tenon/author/text.hpp>

#include <algorithm>

namespace tenon::sim {

using author::text;

namespace {

enum class Shapes {
  BROADCAST,
  REDUCE,
  SAME,
  MATMUL,
  CONV,
  CONV_DATA,
  CONV_WEIGHT,
  POOL,
  POOL_GRAD,
  GLOBAL,
  BATCH_NORM,
  CHANNEL,
  ROW_NORM,
  LOSS,
  ATTENTION,
  EMBEDDING,
  EMBEDDING_GRAD,
  ONE_HOT,
  FROM_ATTRIBUTE,
  RESHAPE,
  TRANSPOSE,
  CONCAT,
  SLICE,
  PAD,
  UPDATE,
  GATHER,
  SCATTER,
  NONE
};

constexpr Shapes shapes_of(uint32_t op) {
  switch (op) {
#define TN_OP(number, name, version, least, most, outputs, family, dtypes, shape, tolerance, attributes, \
              doc)                                                                                       \
  case number:                                                                                           \
    return Shapes::shape;
#include <tenon/ops.def>
    default:
      return Shapes::NONE;
  }
}

std::string words(const Dims& dims) {
  std::string out = "[";
  for (const int64_t dim : dims) out += text(out.size() == 1 ? "" : ",", dim);
  return out + "]";
}

Dims dims_of(author::TensorView t) { return {t.dims().begin(), t.dims().end()}; }

}  // namespace

Status Inquiry::expect(size_t output, const Dims& dims) const {
  if (!gives(output) || dims_of(out(output)) == dims) return {};
  return malformed(
      text("output ", output, " is ", words(dims_of(out(output))), " and must be ", words(dims)));
}

Status Inquiry::expect_input(size_t input, const Dims& dims) const {
  if (!has(input) || this->dims(input) == dims) return {};
  return malformed(text("input ", input, " is ", words(this->dims(input)), " and must be ", words(dims)));
}

Status Inquiry::expect_rank(size_t input, size_t rank) const {
  if (in(input).rank() == rank) return {};
  return malformed(text("input ", input, " is ", words(dims(input)), " and must be of rank ", rank));
}

Status Inquiry::scalars(size_t first) const {
  for (size_t i = first; i < inputs(); ++i) TN_TRY(expect_input(i, {}));
  return {};
}

Result<int64_t> Inquiry::axis(int64_t given, size_t rank) const {
  const int64_t at = given < 0 ? given + static_cast<int64_t>(rank) : given;
  if (at >= 0 && at < static_cast<int64_t>(rank)) return at;
  return malformed(text("axis ", given, " is outside rank ", rank));
}

Result<Dims> Inquiry::broadcast(const std::vector<Dims>& all) const {
  size_t rank = 0;
  for (const Dims& one : all) rank = std::max(rank, one.size());
  Dims joint(rank, 1);
  for (const Dims& one : all) {
    for (size_t i = 0; i < one.size(); ++i) {
      int64_t& dim = joint[rank - one.size() + i];
      if (one[i] == 1 || one[i] == dim) continue;
      if (dim != 1)
        return malformed(
            text(words(one), " does not broadcast with the other inputs (", one[i], " meets ", dim, ")"));
      dim = one[i];
    }
  }
  return joint;
}

Status Inquiry::check_shapes() const {
  switch (shapes_of(node_.op)) {
    case Shapes::BROADCAST:
      return check_broadcast();
    case Shapes::REDUCE:
      return check_reduce();
    case Shapes::SAME:
      return check_same();
    case Shapes::MATMUL:
      return check_matmul();
    case Shapes::CONV:
    case Shapes::CONV_DATA:
    case Shapes::CONV_WEIGHT:
      return check_conv();
    case Shapes::POOL:
    case Shapes::POOL_GRAD:
    case Shapes::GLOBAL:
      return check_pool();
    case Shapes::BATCH_NORM:
    case Shapes::CHANNEL:
      return check_channels();
    case Shapes::ROW_NORM:
      return check_rows();
    case Shapes::LOSS:
    case Shapes::EMBEDDING:
    case Shapes::EMBEDDING_GRAD:
    case Shapes::ONE_HOT:
      return check_indexing();
    case Shapes::ATTENTION:
      return check_attention();
    case Shapes::FROM_ATTRIBUTE:
      if (node_.op == TN_OP_broadcast_to) {
        const Dims joint = TN_TRY(broadcast({dims(0), integers("shape")}));
        if (joint != integers("shape"))
          return malformed(text(words(dims(0)), " is not repeated to ", words(integers("shape"))));
      }
      return expect(0, integers("shape"));
    case Shapes::RESHAPE:
      return check_reshape();
    case Shapes::TRANSPOSE:
      return check_transpose();
    case Shapes::CONCAT:
      return check_concat();
    case Shapes::SLICE:
      return check_slice();
    case Shapes::PAD:
      return check_pad();
    case Shapes::UPDATE:
      return check_update();
    default:
      return no("its shape rule is not known here");
  }
}

Status Inquiry::check_broadcast() const {
  std::vector<Dims> all;
  for (size_t i = 0; i < inputs(); ++i) all.push_back(dims(i));
  return expect(0, TN_TRY(broadcast(all)));
}

Status Inquiry::check_same() const {
  if (node_.op == TN_OP_dropout) TN_TRY(scalars(1));
  if (node_.op == TN_OP_softmax || node_.op == TN_OP_softmax_grad || node_.op == TN_OP_log_softmax)
    TN_TRY(axis(integer("axis"), in(0).rank()));
  if (node_.op == TN_OP_softmax_grad) TN_TRY(expect_input(1, dims(0)));
  if (node_.op == TN_OP_cross_entropy_grad) {
    TN_TRY(expect_rank(0, 2));
    for (size_t i = 1; i < 4; ++i) TN_TRY(expect_input(i, {dims(0)[0]}));
  }
  if (author::op_row(node_.op).family == "NORM") return check_channels();
  return expect(0, dims(0));
}

Status Inquiry::check_reduce() const {
  const Dims x = dims(0), axes = integers("axes");
  std::vector<bool> folded(x.size());
  for (const int64_t given : axes) {
    const auto at = static_cast<size_t>(TN_TRY(axis(given, x.size())));
    if (folded[at]) return malformed(text("axis ", given, " is named twice"));
    folded[at] = true;
  }
  if (node_.op == TN_OP_argmax && axes.size() != 1)
    return malformed(text("takes one axis, not ", axes.size()));
  Dims result;
  for (size_t i = 0; i < x.size(); ++i) {
    if (!folded[i])
      result.push_back(x[i]);
    else if (integer("keepdims") != 0)
      result.push_back(1);
  }
  return expect(0, result);
}

Status Inquiry::check_matmul() const {
  Dims a = dims(0), b = dims(1);
  if (a.size() < 2 || b.size() < 2)
    return malformed(text("takes ranks of 2 and more, not ", words(a), " and ", words(b)));
  if (integer("transpose_a") != 0) std::swap(a[a.size() - 1], a[a.size() - 2]);
  if (integer("transpose_b") != 0) std::swap(b[b.size() - 1], b[b.size() - 2]);
  if (a.back() != b[b.size() - 2])
    return malformed(text(a.back(), " columns meet ", b[b.size() - 2], " rows: ", words(a), " × ", words(b)));
  Dims result = TN_TRY(broadcast({Dims(a.begin(), a.end() - 2), Dims(b.begin(), b.end() - 2)}));
  result.push_back(a[a.size() - 2]);
  result.push_back(b.back());
  return expect(0, result);
}

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
  const bool statistics = shapes_of(node_.op) == Shapes::CHANNEL;
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
  const size_t first = grad ? 2 : 1, statistics = grad ? 3 : 3;
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

Status Inquiry::check_indexing() const {
  Dims result = dims(0);
  if (node_.op == TN_OP_cross_entropy) {
    TN_TRY(expect_rank(0, 2));
    TN_TRY(expect_input(1, {result[0]}));
    TN_TRY(expect(0, {result[0]}));
    return expect(1, {result[0]});
  }
  if (node_.op == TN_OP_one_hot) {
    if (integer("classes") < 1) return malformed(text(integer("classes"), " classes"));
    result.push_back(integer("classes"));
    return expect(0, result);
  }
  if (node_.op == TN_OP_embedding) {
    TN_TRY(expect_rank(1, 2));
    result.push_back(dims(1)[1]);
    return expect(0, result);
  }
  if (in(1).rank() == 0) return malformed("takes dy of the indices' dims and one more");
  result.push_back(dims(1).back());
  TN_TRY(expect_input(1, result));
  return expect(0, {integer("rows"), dims(1).back()});
}

Status Inquiry::check_reshape() const {
  const Dims shape = integers("shape");
  const bool open = std::ranges::any_of(shape, [](int64_t dim) { return dim < 0; });
  if (!open) TN_TRY(expect(0, shape));
  if (in(0).elements() == out(0).elements()) return {};
  return malformed(
      text(words(dims(0)), " and ", words(dims_of(out(0))), " have different counts of elements"));
}

Status Inquiry::check_transpose() const {
  const Dims order = integers("order");
  Dims sorted = order, result;
  std::ranges::sort(sorted);
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (sorted.size() != in(0).rank() || sorted[i] != static_cast<int64_t>(i))
      return malformed(text("order ", words(order), " is no permutation of rank ", in(0).rank()));
  }
  if (order.size() != in(0).rank())
    return malformed(text("order ", words(order), " misses dims of ", words(dims(0))));
  for (const int64_t from : order) result.push_back(dims(0)[static_cast<size_t>(from)]);
  return expect(0, result);
}

Status Inquiry::check_concat() const {
  const auto at = static_cast<size_t>(TN_TRY(axis(integer("axis"), in(0).rank())));
  Dims result = dims(0);
  result[at] = 0;
  for (size_t i = 0; i < inputs(); ++i) {
    if (!has(i)) return malformed(text("input ", i, " is absent"));
    Dims expected = result;
    if (in(i).rank() != result.size())
      return malformed(text("input ", i, " is ", words(dims(i)), ", of another rank"));
    expected[at] = dims(i)[at];
    TN_TRY(expect_input(i, expected));
    result[at] += dims(i)[at];
  }
  return expect(0, result);
}

Status Inquiry::check_slice() const {
  const Dims x = dims(0), begin = integers("begin"), end = integers("end"), step = integers("step");
  if (begin.size() != x.size() || end.size() != x.size() || step.size() != x.size())
    return malformed(text("begin, end and step have ", x.size(), " numbers each for ", words(x)));
  Dims result;
  for (size_t i = 0; i < x.size(); ++i) {
    if (step[i] < 1 || begin[i] < 0 || begin[i] > end[i] || end[i] > x[i])
      return malformed(text("[", begin[i], ":", end[i], ":", step[i], "] leaves dim ", i, " of ", words(x)));
    result.push_back((end[i] - begin[i] + step[i] - 1) / step[i]);
  }
  return expect(0, result);
}

Status Inquiry::check_pad() const {
  Dims result = dims(0);
  const Dims before = integers("before"), after = integers("after");
  if (before.size() != result.size() || after.size() != result.size())
    return malformed(text("before and after have ", result.size(), " numbers each"));
  for (size_t i = 0; i < result.size(); ++i) {
    if (before[i] < 0 || after[i] < 0)
      return malformed(text("dim ", i, " is padded by ", before[i], " and ", after[i]));
    result[i] += before[i] + after[i];
  }
  return expect(0, result);
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
