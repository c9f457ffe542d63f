// SPDX-License-Identifier: Apache-2.0
// op_dtypes.hpp: the dtype column of ops.def: which types a node takes and which it gives.
//
// Invariant: a node that passes has of every operand that is there a type that ops.def allows. Optimizers and loss scaling
// are in op_update.hpp.
#pragma once

#include <tenon/author/node_view.hpp>
#include <tenon/author/op_columns.hpp>
#include <tenon/author/op_update.hpp>

namespace tenon::author::detail {

// Whether every input from `first` on and before `last`, or every output, so far as it is there, is of `dtype`.
inline bool inputs_are(const NodeView& node, uint32_t dtype, uint32_t first = 0, uint32_t last = UINT32_MAX) {
  for (uint32_t i = first; i < std::min(last, node.inputs()); ++i) {
    if (node.has(i) && node.in(i).dtype() != dtype) return false;
  }
  return true;
}
inline bool outputs_are(const NodeView& node, uint32_t dtype) {
  for (uint32_t i = 0; i < node.outputs(); ++i) {
    if (node.gives(i) && node.out(i).dtype() != dtype) return false;
  }
  return true;
}

// One float type for all; logarithms of attention in f32.
inline bool are_attention_dtypes(const NodeView& node) {
  const uint32_t dtype = node.in(0).dtype();
  if (!is_float(dtype)) return false;
  if (node.op() == TN_OP_attention) {
    return inputs_are(node, dtype) && (!node.gives(0) || node.out(0).dtype() == dtype) &&
           (!node.gives(1) || node.out(1).dtype() == TN_DTYPE_f32);
  }
  return inputs_are(node, dtype, 0, 5) && inputs_are(node, TN_DTYPE_f32, 5, 6) &&
         inputs_are(node, dtype, 6) && outputs_are(node, dtype);
}

// How many leading inputs of a normalisation have the type of x.
constexpr uint32_t norm_subjects(uint32_t op) noexcept {
  switch (op) {
    case TN_OP_batch_norm_grad:
    case TN_OP_batch_norm_grad_stats:
    case TN_OP_batch_norm_grad_apply:
    case TN_OP_layer_norm_grad:
    case TN_OP_rms_norm_grad:
      return 2;
    default:
      return 1;
  }
}

inline bool are_norm_dtypes(const NodeView& node) {
  const uint32_t dtype = node.in(0).dtype(), op = node.op();
  const auto fits = [&](TensorView t) { return t.dtype() == dtype || t.dtype() == TN_DTYPE_f32; };
  bool good = is_float(dtype) && inputs_are(node, dtype, 0, norm_subjects(op));
  for (uint32_t i = norm_subjects(op); i < node.inputs(); ++i)
    good = good && (!node.has(i) || fits(node.in(i)));
  if (op == TN_OP_batch_norm_stats || op == TN_OP_batch_norm_grad_stats)
    return good && outputs_are(node, TN_DTYPE_f32);
  if (op == TN_OP_batch_norm_grad_apply) good = good && inputs_are(node, TN_DTYPE_f32, 7);
  for (uint32_t i = 0; i < node.outputs(); ++i) {
    if (node.gives(i)) good = good && (i == 0 ? node.out(i).dtype() == dtype : fits(node.out(i)));
  }
  return good;
}

[[gnu::cold, gnu::noinline]] inline Status wrong_dtypes(const NodeView& node, std::string_view rule) {
  std::string got;
  for (uint32_t i = 0; i < node.inputs(); ++i)
    got += text(i == 0 ? "" : ", ", node.has(i) ? node.in(i).dtype_name() : "nothing");
  got += " → ";
  for (uint32_t i = 0; i < node.outputs(); ++i)
    got += text(i == 0 ? "" : ", ", node.gives(i) ? node.out(i).dtype_name() : "nothing");
  return node.malformed(text("takes ", rule, "; it got ", got));
}

inline Status check_dtypes(const NodeView& node) {
  const uint32_t n = node.inputs(), op = node.op();
  const uint32_t result = node.gives(0) ? node.out(0).dtype() : uint32_t{TN_DTYPE_NONE};
  const uint32_t first = n > 0 ? node.in(0).dtype() : result;
  const auto rule = [&](bool good, std::string_view takes) {
    return good ? Status() : wrong_dtypes(node, takes);
  };
  const auto stated = [&] { return attribute_dtype(node.raw(), "dtype") == result; };
  switch (op_columns(op).dtypes) {
    case DtypeColumn::FLOAT:
      if (op == TN_OP_attention || op == TN_OP_attention_grad)
        return rule(are_attention_dtypes(node), "one float type, its logarithms in f32");
      return rule(is_float(first) && inputs_are(node, first) && outputs_are(node, first), "one float type");
    case DtypeColumn::NUMBER:
      return rule(first != TN_DTYPE_bool && inputs_are(node, first) && outputs_are(node, first),
                  "one type that is not bool");
    case DtypeColumn::ANY:
      if (op == TN_OP_recv) return rule(stated(), "attribute 'dtype' as its result's type");
      if (op == TN_OP_advance) return rule(is_integer(first) && result == first, "one integer type");
      return rule(inputs_are(node, first) && outputs_are(node, first), "one type");
    case DtypeColumn::COMPARE:
      return rule(inputs_are(node, first) && result == TN_DTYPE_bool, "one type and gives bool");
    case DtypeColumn::LOGIC:
      return rule(inputs_are(node, TN_DTYPE_bool) && result == TN_DTYPE_bool, "bool and gives bool");
    case DtypeColumn::SELECT:
      return rule(first == TN_DTYPE_bool && inputs_are(node, result, 1), "bool and twice the result's type");
    case DtypeColumn::CAST:
      if (op == TN_OP_one_hot && !is_integer(first)) return wrong_dtypes(node, "integer indices");
      return rule(stated(), "attribute 'dtype' as its result's type");
    case DtypeColumn::INDEX:
      return rule(first != TN_DTYPE_bool && result == TN_DTYPE_i64, "a number and gives i64");
    case DtypeColumn::NORM:
      return rule(are_norm_dtypes(node), "one float type; parameters and statistics are of it or f32");
    case DtypeColumn::LABEL:
      return rule(is_float(first) && is_integer(node.in(1).dtype()) && inputs_are(node, TN_DTYPE_f32, 2) &&
                      outputs_are(node, op == TN_OP_cross_entropy ? uint32_t{TN_DTYPE_f32} : first),
                  "float scores and integer labels, losses and logarithms in f32");
    case DtypeColumn::LOOKUP:
      return rule(is_integer(first) && is_float(result) && inputs_are(node, result, 1),
                  "integer indices and one float type");
    case DtypeColumn::RANDOM:
      return rule(is_float(result) && inputs_are(node, TN_DTYPE_u64, n - 2) &&
                      (op == TN_OP_dropout ? first == result : stated()),
                  "one float type, and seed and offset of u64");
    case DtypeColumn::UPDATE:
      return rule(are_update_dtypes(node),
                  "floats; its scalars in f32, and states and masters of halves in f32");
    case DtypeColumn::NONE:
      break;
  }
  return node.unsupported("its dtype rule is not known to this SDK");
}

}  // namespace tenon::author::detail
