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

Dims dims_of(author::TensorView t) { return {t.dims().begin(), t.dims().end()}; }

}  // namespace

std::string words(const Dims& dims) {
  std::string out = "[";
  for (const int64_t dim : dims) out += text(out.size() == 1 ? "" : ",", dim);
  return out + "]";
}

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

}  // namespace tenon::sim
