// SPDX-License-Identifier: Apache-2.0
// op_rules.hpp: whether a fragment's nodes mean something: every rule of ops.def, once, for every plugin.
//
//   Status supports(const tn_fragment& f, tn_support& out) {
//     const FragmentView fragment(f);
//     TN_TRY(check_rules(fragment));     // TN_INVALID: no device could run it
//     … then what this device does not do
//
// The framework has checked already that the fragment is well formed (fragment_check.hpp). A small fragment takes well
// under a microsecond; nothing is allocated until something is wrong.
// Invariant: of a node that passes, every operand, attribute, dtype and shape is as ops.def says, so kernels look up
// without asking again. Private layouts are the plugin's affair.
#pragma once

#include <tenon/author/op_dtypes.hpp>
#include <tenon/author/op_ranges.hpp>
#include <tenon/author/op_shapes_network.hpp>

#include <vector>

namespace tenon::author {

namespace detail {

inline Status check_known(const NodeView& node) {
  const OpRow row = op_row(node.op());
  if (row.version == 0) return node.unsupported(text("op ", node.op(), " is not in this plugin's ops.def"));
  if (node.raw().version > row.version)
    return node.unsupported(
        text("version ", node.raw().version, " is newer than version ", row.version, " known here"));
  if (row.inputs_max != TN_OP_MANY) return {};
  for (uint32_t i = 0; i < node.inputs(); ++i) {
    if (!node.has(i)) return node.malformed(text("input ", i, " is absent"));
  }
  return {};
}

inline Status check_attributes(const NodeView& node) {
  for (std::string_view column = op_columns(node.op()).attributes; !column.empty();) {
    const AttributeRow row = next_attribute(column);
    const tn_attribute* const found = attribute(node.raw(), row.name);
    if (found == nullptr) return node.malformed(text("attribute '", row.name, "' is missing"));
    if (found->kind != row.kind)
      return node.malformed(text("attribute '", row.name, "' is of kind ", found->kind, ", not ", row.kind));
  }
  return {};
}

inline Status check_range(const NodeView& node, const AttributeRange& range) {
  const tn_attribute& found = *attribute(node.raw(), range.attribute);
  if (found.kind == TN_ATTRIBUTE_STRING) {
    const std::string_view word = *attribute_string(node.raw(), range.attribute);
    return is_within(range, word) ? Status() : node.malformed(out_of_range(range, text("\"", word, "\"")));
  }
  const bool whole = found.kind == TN_ATTRIBUTE_I64;
  if (is_within(range, whole ? static_cast<double>(found.i64) : found.f64)) return {};
  return node.malformed(out_of_range(range, whole ? text(found.i64) : digits(found.f64)));
}

inline Status check_ranges(const NodeView& node) {
  for (const AttributeRange& range : ranges_of(node.op())) TN_TRY(check_range(node, range));
  if (node.op() != TN_OP_constant && node.op() != TN_OP_pad) return {};
  const uint32_t dtype = node.op() == TN_OP_pad ? node.in(0).dtype() : *attribute_dtype(node.raw(), "dtype");
  const double value = node.real("value");
  return holds(dtype, value) ? Status() : node.malformed(not_held(dtype, value));
}

inline Status check_shapes(const NodeView& node) {
  switch (op_columns(node.op()).shape) {
    case ShapeColumn::BROADCAST:
      return check_broadcast(node);
    case ShapeColumn::REDUCE:
      return check_reduce(node);
    case ShapeColumn::SAME:
      return op_row(node.op()).family == "NORM" ? check_channels(node) : check_same(node);
    case ShapeColumn::MATMUL:
      return check_matmul(node);
    case ShapeColumn::CONV:
    case ShapeColumn::CONV_DATA:
    case ShapeColumn::CONV_WEIGHT:
      return check_conv(node);
    case ShapeColumn::POOL:
    case ShapeColumn::POOL_GRAD:
    case ShapeColumn::GLOBAL:
      return check_pool(node);
    case ShapeColumn::BATCH_NORM:
    case ShapeColumn::CHANNEL:
      return check_channels(node);
    case ShapeColumn::ROW_NORM:
      return check_rows(node);
    case ShapeColumn::LOSS:
      return check_loss(node);
    case ShapeColumn::ATTENTION:
      return check_attention(node);
    case ShapeColumn::EMBEDDING:
    case ShapeColumn::EMBEDDING_GRAD:
    case ShapeColumn::ONE_HOT:
      return check_lookup(node);
    case ShapeColumn::FROM_ATTRIBUTE:
      return check_from_attribute(node);
    case ShapeColumn::RESHAPE:
      return check_reshape(node);
    case ShapeColumn::TRANSPOSE:
      return check_transpose(node);
    case ShapeColumn::CONCAT:
      return check_concat(node);
    case ShapeColumn::SLICE:
      return check_slice(node);
    case ShapeColumn::PAD:
      return check_pad(node);
    case ShapeColumn::UPDATE:
      return check_update(node);
    case ShapeColumn::GATHER:
      return check_part(node, node.dims(0), node.out(0).dims());
    case ShapeColumn::SCATTER:
      return check_part(node, node.out(0).dims(), node.dims(0));
    case ShapeColumn::NONE:
      break;
  }
  return {};
}

inline Status check_meaning(const FragmentView& fragment, uint32_t index) {
  const tn_tensor& raw = fragment.tensors()[index];
  const TensorView tensor(raw);
  if (dtype_row(raw.dtype).reserved) {
    return Status(TN_UNSUPPORTED,
                  text("tensor ", index, " is ", tensor.dtype_name(), ", which no op takes yet"));
  }
  if (!tensor.is_constant()) return {};
  const uint64_t bytes = dtype_bytes(raw.dtype, tensor.elements());
  if (raw.constant_bytes >= bytes) return {};
  return Status(TN_INVALID,
                text("constant tensor ", index, " has ", raw.constant_bytes, " bytes and needs ", bytes));
}

// What is written is written element by element, in any order: no two elements may share a place.
inline Status check_written(const FragmentView& fragment, uint32_t index) {
  const TensorView tensor = fragment.tensor(index);
  if (tensor.raw().strides == nullptr || tensor.raw().layout != 0 || tensor.elements() < 2) return {};
  std::array<uint32_t, TN_MAX_RANK> order{};  // the dims of more than one element, by stride
  size_t count = 0;
  for (uint32_t i = 0; i < tensor.rank(); ++i) {
    if (tensor.dims()[i] < 2) continue;
    size_t at = count++;
    for (; at > 0 && tensor.raw().strides[order[at - 1]] > tensor.raw().strides[i]; --at)
      order[at] = order[at - 1];
    order[at] = i;
  }
  int64_t reach = 0;
  for (size_t i = 0; i < count; ++i) {
    const int64_t stride = tensor.raw().strides[order[i]], dim = tensor.dims()[order[i]];
    int64_t length = 0;
    if (stride <= reach) {
      return Status(TN_INVALID, text("output tensor ", index,
                                     " has strides under which two elements may share a place"
                                     " (a stride of ",
                                     stride, " inside a reach of ", reach, ")"));
    }
    if (__builtin_mul_overflow(stride, dim - 1, &length) || __builtin_add_overflow(reach, length, &reach))
      return Status(TN_INVALID, text("output tensor ", index, " reaches over 2^63 elements"));
  }
  return {};
}

// A set of a fragment's tensors; the few of most fragments need no allocation.
class TensorSet {
 public:
  explicit TensorSet(size_t tensors) {
    if (tensors > few_.size()) many_.resize(tensors);
  }
  bool has(uint32_t i) const { return many_.empty() ? few_[i] : many_[i]; }
  void add(uint32_t i) {
    if (many_.empty())
      few_.set(i);
    else
      many_[i] = true;
  }

 private:
  std::bitset<512> few_{};
  std::vector<bool> many_{};
};

// A node reads what is an input, a constant, or made before it; nothing is made twice, and every output is made.
inline Status check_order(const FragmentView& fragment) {
  TensorSet made(fragment.tensors().size());
  for (const uint32_t i : fragment.inputs()) made.add(i);
  for (uint32_t i = 0; i < fragment.tensors().size(); ++i) {
    if (fragment.tensor(i).is_constant()) made.add(i);
  }
  for (uint32_t n = 0; n < fragment.nodes().size(); ++n) {
    const NodeView node(fragment, n);
    for (uint32_t i = 0; i < node.inputs(); ++i) {
      if (!node.has(i) || made.has(node.raw().inputs[i])) continue;
      return node.malformed(text("reads tensor ", node.raw().inputs[i], " before it is made"));
    }
    for (uint32_t i = 0; i < node.outputs(); ++i) {
      if (!node.gives(i)) continue;
      const uint32_t tensor = node.raw().outputs[i];
      if (made.has(tensor)) return node.malformed(text("makes tensor ", tensor, " a second time"));
      made.add(tensor);
    }
  }
  for (const uint32_t i : fragment.outputs()) {
    if (!made.has(i)) return Status(TN_INVALID, text("output tensor ", i, " is made by no node"));
  }
  return {};
}

}  // namespace detail

// One node against its row of ops.def. TN_INVALID for what the row forbids, TN_UNSUPPORTED for an op or a version newer
// than this SDK; the message names node, op and values. [any-thread; does not block; may fail]
inline Status check_node_rules(const FragmentView& fragment, uint32_t index) {
  const NodeView node(fragment, index);
  TN_TRY(detail::check_known(node));
  TN_TRY(detail::check_attributes(node));
  TN_TRY(detail::check_ranges(node));
  TN_TRY(detail::check_dtypes(node));
  return detail::check_shapes(node);
}

// A whole fragment: tensors, every node, what is written, and the order. TN_UNSUPPORTED, as above, also for a dtype that
// no op takes yet. [any-thread; does not block; may fail]
inline Status check_rules(const FragmentView& fragment) {
  if (fragment.nodes().empty()) return Status(TN_INVALID, "the fragment has no nodes");
  for (uint32_t i = 0; i < fragment.tensors().size(); ++i) TN_TRY(detail::check_meaning(fragment, i));
  for (uint32_t n = 0; n < fragment.nodes().size(); ++n) {
    TN_TRY(check_node_rules(fragment, n));
    const NodeView node(fragment, n);
    for (uint32_t i = 0; i < node.outputs(); ++i) {
      if (node.gives(i)) TN_TRY(detail::check_written(fragment, node.raw().outputs[i]));
    }
  }
  for (const uint32_t i : fragment.outputs()) TN_TRY(detail::check_written(fragment, i));
  return detail::check_order(fragment);
}

}  // namespace tenon::author
