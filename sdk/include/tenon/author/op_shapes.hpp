// SPDX-License-Identifier: Apache-2.0
// op_shapes.hpp: the shape column of ops.def for elementwise ops, reductions, products, movement, lookups and random
// numbers: what a node's operands must be, and what its results then are.
//
// Invariant: no sum or product of dims overflows here, whatever an attribute says.
#pragma once

#include <tenon/author/node_view.hpp>

#include <bitset>

namespace tenon::author::detail {

inline Status expect(const NodeView& node, uint32_t output, std::span<const int64_t> dims) {
  if (!node.gives(output) || same_dims(node.out(output).dims(), dims)) return {};
  return node.malformed(
      text("output ", output, " is ", words(node.out(output).dims()), " and must be ", words(dims)));
}

inline Status expect_input(const NodeView& node, uint32_t input, std::span<const int64_t> dims) {
  if (!node.has(input) || same_dims(node.dims(input), dims)) return {};
  return node.malformed(text("input ", input, " is ", words(node.dims(input)), " and must be ", words(dims)));
}

inline Status expect_rank(const NodeView& node, uint32_t input, uint32_t rank) {
  if (node.in(input).rank() == rank) return {};
  return node.malformed(
      text("input ", input, " is ", words(node.dims(input)), " and must be of rank ", rank));
}

// An axis counted from the front; a negative one counts from the end.
inline Result<size_t> axis_of(const NodeView& node, int64_t given, size_t rank) {
  const auto end = static_cast<int64_t>(rank);
  if (given >= -end && given < end) return static_cast<size_t>(given < 0 ? given + end : given);
  return node.malformed(text("axis ", given, " is outside rank ", rank));
}

// Widens `joint` to hold `dims` too, by numpy's rules; it has at least as many dims.
inline Status join(const NodeView& node, DimList& joint, std::span<const int64_t> dims) {
  for (size_t i = 0; i < dims.size(); ++i) {
    int64_t& dim = joint[joint.size() - dims.size() + i];
    if (dims[i] == 1 || dims[i] == dim) continue;
    if (dim != 1)
      return node.malformed(
          text(words(dims), " does not broadcast with the other inputs (", dims[i], " meets ", dim, ")"));
    dim = dims[i];
  }
  return {};
}

inline Status check_broadcast(const NodeView& node) {
  uint32_t rank = 0;
  for (uint32_t i = 0; i < node.inputs(); ++i) rank = std::max(rank, node.in(i).rank());
  DimList joint = DimList::ones(rank);
  for (uint32_t i = 0; i < node.inputs(); ++i) TN_TRY(join(node, joint, node.dims(i)));
  return expect(node, 0, joint);
}

inline Status check_reduce(const NodeView& node) {
  const std::span<const int64_t> dims = node.dims(0), axes = node.integers("axes");
  std::bitset<TN_MAX_RANK> folded;
  for (const int64_t given : axes) {
    const size_t at = TN_TRY(axis_of(node, given, dims.size()));
    if (folded[at]) return node.malformed(text("axis ", given, " of ", words(axes), " is named twice"));
    folded.set(at);
  }
  if (node.op() == TN_OP_argmax && axes.size() != 1)
    return node.malformed(text("takes one axis, not ", axes.size()));
  DimList result;
  const bool keep = node.integer("keepdims") != 0;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (!folded[i] || keep) result.push_back(folded[i] ? 1 : dims[i]);
  }
  return expect(node, 0, result);
}

inline Status check_matmul(const NodeView& node) {
  DimList a(node.dims(0)), b(node.dims(1));
  if (a.size() < 2 || b.size() < 2)
    return node.malformed(text("takes ranks of 2 and more, not ", words(a), " and ", words(b)));
  const size_t m = a.size() - 2, k = b.size() - 2;
  if (node.integer("transpose_a") != 0) std::swap(a[m], a[m + 1]);
  if (node.integer("transpose_b") != 0) std::swap(b[k], b[k + 1]);
  if (a[m + 1] != b[k])
    return node.malformed(text(a[m + 1], " columns meet ", b[k], " rows: ", words(a), " × ", words(b)));
  DimList result = DimList::ones(std::max(m, k));
  TN_TRY(join(node, result, std::span<const int64_t>(a).first(m)));
  TN_TRY(join(node, result, std::span<const int64_t>(b).first(k)));
  result.push_back(a[m]);
  result.push_back(b[k + 1]);
  return expect(node, 0, result);
}

// Output 0 has the dims of input 0.
inline Status check_same(const NodeView& node) {
  switch (node.op()) {
    case TN_OP_softmax:
    case TN_OP_softmax_grad:
    case TN_OP_log_softmax:
      TN_TRY(axis_of(node, node.integer("axis"), node.in(0).rank()));
      if (node.op() == TN_OP_softmax_grad) TN_TRY(expect_input(node, 1, node.dims(0)));
      break;
    case TN_OP_dropout:
      for (uint32_t i = 1; i < node.inputs(); ++i) TN_TRY(expect_rank(node, i, 0));
      break;
    case TN_OP_cross_entropy_grad:
      TN_TRY(expect_rank(node, 0, 2));
      for (uint32_t i = 1; i < 4; ++i) TN_TRY(expect_input(node, i, node.dims(0).first(1)));
      break;
    default:
      break;
  }
  return expect(node, 0, node.dims(0));
}

inline Status check_from_attribute(const NodeView& node) {
  const std::span<const int64_t> shape = node.integers("shape");
  TN_TRY(expect(node, 0, shape));
  if (node.op() != TN_OP_broadcast_to) {
    for (uint32_t i = 0; i < node.inputs(); ++i) TN_TRY(expect_rank(node, i, 0));  // seed and offset
    return {};
  }
  const std::span<const int64_t> dims = node.dims(0);
  bool fits = dims.size() <= shape.size();
  for (size_t i = 1; fits && i <= dims.size(); ++i)
    fits = dims[dims.size() - i] == 1 || dims[dims.size() - i] == shape[shape.size() - i];
  return fits ? Status() : node.malformed(text(words(dims), " is not repeated to ", words(shape)));
}

// One number of `shape` may be -1: the result says how many, and the others leave no choice.
inline Status check_reshape(const NodeView& node) {
  const std::span<const int64_t> shape = node.integers("shape"), result = node.out(0).dims();
  const auto open = std::find(shape.begin(), shape.end(), -1);
  if (open == shape.end() || shape.size() != result.size()) {
    TN_TRY(expect(node, 0, shape));
  } else {
    DimList filled(shape);
    filled[static_cast<size_t>(open - shape.begin())] = result[static_cast<size_t>(open - shape.begin())];
    TN_TRY(expect(node, 0, filled));
    if (std::find(shape.begin(), shape.end(), 0) != shape.end())
      return node.malformed(text("the -1 of ", words(shape), " may be any number"));
  }
  if (node.in(0).elements() == node.out(0).elements()) return {};
  return node.malformed(
      text(words(node.dims(0)), " and ", words(node.out(0).dims()), " have different counts of elements"));
}

inline Status check_transpose(const NodeView& node) {
  const std::span<const int64_t> dims = node.dims(0), order = node.integers("order");
  std::bitset<TN_MAX_RANK> seen;
  DimList result;
  bool good = order.size() == dims.size();
  for (size_t i = 0; good && i < order.size(); ++i) {
    const auto from = static_cast<size_t>(order[i]);
    good = from < dims.size() && !seen[from];
    if (!good) break;
    seen.set(from);
    result.push_back(dims[from]);
  }
  if (!good)
    return node.malformed(text("order ", words(order), " is no permutation of the dims of ", words(dims)));
  return expect(node, 0, result);
}

inline Status check_concat(const NodeView& node) {
  const size_t axis = TN_TRY(axis_of(node, node.integer("axis"), node.in(0).rank()));
  DimList result(node.dims(0));
  result[axis] = 0;
  for (uint32_t n = 0; n < node.inputs(); ++n) {
    const std::span<const int64_t> dims = node.dims(n);
    bool fits = dims.size() == result.size();
    for (size_t i = 0; fits && i < dims.size(); ++i) fits = i == axis || dims[i] == result[i];
    if (!fits || __builtin_add_overflow(result[axis], dims[axis], &result[axis]))
      return node.malformed(text("input ", n, " is ", words(dims), ", which does not join ",
                                 words(node.dims(0)), " along axis ", axis));
  }
  return expect(node, 0, result);
}

inline Status check_slice(const NodeView& node) {
  const std::span<const int64_t> dims = node.dims(0), begin = node.integers("begin"),
                                 end = node.integers("end"), step = node.integers("step");
  if (begin.size() != dims.size() || end.size() != dims.size() || step.size() != dims.size())
    return node.malformed(text("begin, end and step have ", dims.size(), " numbers each for ", words(dims)));
  DimList result;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (step[i] < 1 || begin[i] < 0 || begin[i] > end[i] || end[i] > dims[i])
      return node.malformed(
          text("[", begin[i], ":", end[i], ":", step[i], "] leaves dim ", i, " of ", words(dims)));
    result.push_back(end[i] == begin[i] ? 0 : (end[i] - begin[i] - 1) / step[i] + 1);
  }
  return expect(node, 0, result);
}

inline Status check_pad(const NodeView& node) {
  const std::span<const int64_t> dims = node.dims(0), before = node.integers("before"),
                                 after = node.integers("after");
  if (before.size() != dims.size() || after.size() != dims.size())
    return node.malformed(text("before and after have ", dims.size(), " numbers each for ", words(dims)));
  DimList result;
  for (size_t i = 0; i < dims.size(); ++i) {
    int64_t dim = dims[i];
    if (before[i] < 0 || after[i] < 0 || __builtin_add_overflow(dim, before[i], &dim) ||
        __builtin_add_overflow(dim, after[i], &dim))
      return node.malformed(
          text("dim ", i, " of ", words(dims), " is padded by ", before[i], " and ", after[i]));
    result.push_back(dim);
  }
  return expect(node, 0, result);
}

inline Status check_lookup(const NodeView& node) {
  DimList result(node.dims(0));
  if (node.op() == TN_OP_one_hot) {
    if (node.integer("classes") < 1)
      return node.malformed(text(node.integer("classes"), " classes are none"));
    result.push_back(node.integer("classes"));
    return expect(node, 0, result);
  }
  if (node.op() == TN_OP_embedding) {
    TN_TRY(expect_rank(node, 1, 2));
    result.push_back(node.dims(1)[1]);
    return expect(node, 0, result);
  }
  if (node.in(1).rank() == 0)
    return node.malformed("takes dy of the indices' dims and one more, not a scalar");
  result.push_back(node.dims(1).back());
  TN_TRY(expect_input(node, 1, result));
  return expect(node, 0, DimList{node.integer("rows"), node.dims(1).back()});
}

}  // namespace tenon::author::detail
