// SPDX-License-Identifier: Apache-2.0
// shapes.cpp: the shape column of ops.def for elementwise ops, reductions, products and movement.
#include "graph/infer.hpp"

#include "base/extent.hpp"

#include <algorithm>

namespace tenon::graph {
namespace {

Shapes one(Dims dims) { return std::vector<Dims>{std::move(dims)}; }

Shapes broadcast_shapes(const Question& q) {
  Dims joint = q.dims(0);
  for (size_t i = 1; i < q.count(); ++i) joint = TN_TRY(broadcast(joint, q.dims(i)));
  return one(joint);
}

Shapes reduce_shapes(const Question& q) {
  auto& axes = std::get<Dims>(*q.find("axes"));
  const Dims& x = q.dims(0);
  std::vector<bool> folded(x.size());
  for (int64_t& axis : axes) {
    const size_t at = TN_TRY(axis_of(axis, x.size()));
    if (folded[at]) return bad("axis " + std::to_string(axis) + " is named twice in axes " + words(axes));
    folded[at] = true;
    axis = static_cast<int64_t>(at);
  }
  if (q.op() == Op::argmax && axes.size() != 1)
    return bad("axes " + words(axes) + " are " + std::to_string(axes.size()) + ", it takes one");
  Dims out;
  for (size_t i = 0; i < x.size(); ++i) {
    if (!folded[i])
      out.push_back(x[i]);
    else if (q.integer("keepdims") != 0)
      out.push_back(1);
  }
  return one(out);
}

Shapes same_shapes(const Question& q) {
  switch (q.op()) {
    case Op::softmax:
    case Op::log_softmax:
    case Op::softmax_grad:
      TN_TRY(axis_of(q.integer("axis"), q.rank(0)));
      TN_TRY(expect(q, 1, q.dims(0)));
      break;
    case Op::dropout:
      TN_TRY(expect(q, 1, {}));
      TN_TRY(expect(q, 2, {}));
      break;
    case Op::cross_entropy_grad:
      TN_TRY(expect_rank(q, 0, 2));
      for (size_t i = 1; i < q.count(); ++i) TN_TRY(expect(q, i, {q.dims(0)[0]}));
      break;
    default:
      if (columns_of(q.op()).family == Family::NORM) return channel_shapes(q);
  }
  return one(q.dims(0));
}

Shapes matmul_shapes(const Question& q) {
  for (size_t i = 0; i < 2; ++i) {
    if (q.rank(i) < 2)
      return bad("input " + std::to_string(i) + " has rank " + std::to_string(q.rank(i)) +
                 ", it must have 2 or more: rows and columns");
  }
  Dims a = q.dims(0), b = q.dims(1);
  if (q.integer("transpose_a") != 0) std::swap(a[a.size() - 1], a[a.size() - 2]);
  if (q.integer("transpose_b") != 0) std::swap(b[b.size() - 1], b[b.size() - 2]);
  const int64_t inner = a.back(), rows = a[a.size() - 2], columns = b.back(), other = b[b.size() - 2];
  if (inner != other)
    return bad("inner dims " + std::to_string(inner) + " and " + std::to_string(other) + " differ");
  Dims out = TN_TRY(broadcast({a.begin(), a.end() - 2}, {b.begin(), b.end() - 2}));
  out.insert(out.end(), {rows, columns});
  return one(out);
}

Status expect_shape(const Dims& shape) {
  for (const int64_t dim : shape) {
    if (dim < 0) return bad("attribute 'shape' is " + words(shape) + ": dims are 0 or more");
  }
  return {};
}

Shapes given_shapes(const Question& q) {
  const Dims& shape = q.integers("shape");
  TN_TRY(expect_shape(shape));
  if (q.op() != Op::broadcast_to) {
    for (size_t i = 0; i < q.count(); ++i) TN_TRY(expect(q, i, {}));  // seed and offset
    return one(shape);
  }
  const auto joint = broadcast(q.dims(0), shape);
  if (joint.ok() && *joint == shape) return one(shape);
  return bad(words(q.dims(0)) + " cannot be repeated to " + words(shape));
}

// One dim may be -1: what is left.
Shapes reshape_shapes(const Question& q) {
  Dims& shape = std::get<Dims>(*q.find("shape"));
  const uint64_t elements = base::element_count(q.dims(0));
  const auto open = std::find(shape.begin(), shape.end(), -1);
  if (open != shape.end()) {
    *open = 1;
    const uint64_t others = base::element_count(shape);
    *open = -1;
    if (others == 0 || elements % others != 0)
      return bad(words(q.dims(0)) + " leaves no whole number for the -1 of " + words(shape));
    *open = static_cast<int64_t>(elements / others);
  }
  TN_TRY(expect_shape(shape));
  if (base::element_count(shape) == elements) return one(shape);
  return bad(words(q.dims(0)) + " has " + std::to_string(elements) + " elements and " + words(shape) +
             " has " + std::to_string(base::element_count(shape)));
}

Shapes transpose_shapes(const Question& q) {
  const Dims& order = q.integers("order");
  Dims sorted = order, out;
  std::sort(sorted.begin(), sorted.end());
  bool permutes = order.size() == q.rank(0);
  for (size_t i = 0; i < sorted.size(); ++i) permutes = permutes && sorted[i] == static_cast<int64_t>(i);
  if (!permutes)
    return bad("order " + words(order) + " is no permutation of the dims of " + words(q.dims(0)));
  for (const int64_t from : order) out.push_back(q.dims(0)[static_cast<size_t>(from)]);
  return one(out);
}

Shapes concat_shapes(const Question& q) {
  const size_t axis = TN_TRY(axis_of(q.integer("axis"), q.rank(0)));
  *q.find("axis") = static_cast<int64_t>(axis);
  Dims out = q.dims(0);
  for (size_t i = 1; i < q.count(); ++i) {
    Dims expected = q.dims(0);
    TN_TRY(expect_rank(q, i, expected.size()));
    expected[axis] = q.dims(i)[axis];
    TN_TRY(expect(q, i, expected));
    out[axis] = plus(out[axis], expected[axis]);
  }
  return one(out);
}

Status expect_numbers(const Question& q, const char* attribute) {
  const Dims& numbers = q.integers(attribute);
  if (numbers.size() == q.rank(0)) return {};
  return bad("attribute '" + std::string(attribute) + "' is " + words(numbers) +
             ": it needs one number for each dim of " + words(q.dims(0)));
}

Shapes slice_shapes(const Question& q) {
  for (const char* attribute : {"begin", "end", "step"}) TN_TRY(expect_numbers(q, attribute));
  const Dims &begin = q.integers("begin"), &end = q.integers("end"), &step = q.integers("step");
  Dims out;
  for (size_t i = 0; i < begin.size(); ++i) {
    if (step[i] < 1 || begin[i] < 0 || begin[i] > end[i] || end[i] > q.dims(0)[i]) {
      return bad("dim " + std::to_string(i) + " has " + std::to_string(q.dims(0)[i]) + " places; " +
                 std::to_string(begin[i]) + " to " + std::to_string(end[i]) + " by " +
                 std::to_string(step[i]) + " is not inside: 0 ≤ begin ≤ end ≤ dim, step > 0");
    }
    const int64_t places = end[i] - begin[i];
    out.push_back(places / step[i] + (places % step[i] != 0 ? 1 : 0));
  }
  return one(out);
}

Shapes pad_shapes(const Question& q) {
  for (const char* attribute : {"before", "after"}) TN_TRY(expect_numbers(q, attribute));
  const Dims &before = q.integers("before"), &after = q.integers("after");
  Dims out = q.dims(0);
  for (size_t i = 0; i < out.size(); ++i) {
    if (before[i] < 0 || after[i] < 0)
      return bad("dim " + std::to_string(i) + " is padded by " + std::to_string(before[i]) + " and " +
                 std::to_string(after[i]) + ": give 0 or more");
    out[i] = plus(out[i], plus(before[i], after[i]));
  }
  return one(out);
}

}  // namespace

Shapes infer_shapes(const Question& q) {
  switch (columns_of(q.op()).shape) {
    case ShapeRule::BROADCAST:
      return broadcast_shapes(q);
    case ShapeRule::REDUCE:
      return reduce_shapes(q);
    case ShapeRule::SAME:
      return same_shapes(q);
    case ShapeRule::MATMUL:
      return matmul_shapes(q);
    case ShapeRule::CONV:
    case ShapeRule::CONV_DATA:
    case ShapeRule::CONV_WEIGHT:
      return conv_shapes(q);
    case ShapeRule::POOL:
    case ShapeRule::POOL_GRAD:
    case ShapeRule::GLOBAL:
      return pool_shapes(q);
    case ShapeRule::BATCH_NORM:
    case ShapeRule::CHANNEL:
      return channel_shapes(q);
    case ShapeRule::ROW_NORM:
      return row_shapes(q);
    case ShapeRule::LOSS:
      return loss_shapes(q);
    case ShapeRule::ATTENTION:
      return attention_shapes(q);
    case ShapeRule::EMBEDDING:
    case ShapeRule::EMBEDDING_GRAD:
    case ShapeRule::ONE_HOT:
      return lookup_shapes(q);
    case ShapeRule::FROM_ATTRIBUTE:
      return given_shapes(q);
    case ShapeRule::RESHAPE:
      return reshape_shapes(q);
    case ShapeRule::TRANSPOSE:
      return transpose_shapes(q);
    case ShapeRule::CONCAT:
      return concat_shapes(q);
    case ShapeRule::SLICE:
      return slice_shapes(q);
    case ShapeRule::PAD:
      return pad_shapes(q);
    case ShapeRule::UPDATE:
      return update_shapes(q);
    case ShapeRule::GATHER:
    case ShapeRule::SCATTER:
      return rank_shapes(q);
    case ShapeRule::NONE:
      return std::vector<Dims>{};
  }
  return bad("its shape rule is not known");
}

}  // namespace tenon::graph
