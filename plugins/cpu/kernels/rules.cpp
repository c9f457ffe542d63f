// SPDX-License-Identifier: Apache-2.0
// rules.cpp: the dtype and shape columns of ops.def, as far as this plugin goes.
//
// Invariant: a rule that fails names the node, and both sides' figures.
#include "rules.hpp"

#include "tile_ops.hpp"

#include <tenon/author/text.hpp>

#include <bitset>
#include <vector>

namespace tenon::cpu {

using author::attribute_dtype;
using author::attribute_i64;
using author::attribute_i64s;
using author::dtype_name;
using author::text;

namespace {

enum class Dtypes {
  FLOAT,
  NUMBER,
  ANY,
  COMPARE,
  LOGIC,
  SELECT,
  CAST,
  INDEX,
  NORM,
  LABEL,
  LOOKUP,
  RANDOM,
  UPDATE
};

constexpr Dtypes dtypes_of(uint32_t op) noexcept {
  switch (op) {
#define TN_OP(number, name, version, least, most, outputs, family, dtypes, shape, tolerance, attributes, \
              doc)                                                                                       \
  case number:                                                                                           \
    return Dtypes::dtypes;
#include <tenon/ops.def>
    default:
      return Dtypes::ANY;
  }
}

constexpr bool is_float(uint32_t dtype) { return dtype >= TN_DTYPE_f16 && dtype <= TN_DTYPE_f64; }

std::string words(std::span<const int64_t> dims) {
  std::string out = "[";
  for (size_t i = 0; i < dims.size(); ++i) out += text(i == 0 ? "" : ",", dims[i]);
  out += "]";
  return out;
}

// One node under the magnifier.
class NodeCheck {
 public:
  NodeCheck(const FragmentView& fragment, uint32_t index)
      : fragment_(fragment), index_(index), node_(fragment.nodes()[index]), role_(role_of(node_.op)) {}

  Status run() const {
    TN_TRY(check_op());
    TN_TRY(check_dtypes());
    switch (role_) {
      case Role::reduction:
        return check_reduction();
      case Role::matmul:
        return check_matmul();
      case Role::reshape:
        return check_reshape();
      case Role::transpose:
        return check_transpose();
      default:
        return check_broadcast();
    }
  }

 private:
  Status no(const std::string& reason) const {
    return Status(TN_UNSUPPORTED, node_name(fragment_, index_) + ": " + reason);
  }
  Status malformed(const std::string& reason) const {
    return Status(TN_INVALID, node_name(fragment_, index_) + ": " + reason);
  }
  TensorView in(uint32_t i) const { return fragment_.tensor(node_.inputs[i]); }
  TensorView out() const { return fragment_.tensor(node_.outputs[0]); }

  Status check_op() const {
    const author::OpRow row = author::op_row(node_.op);
    if (row.version == 0) return no(text("op ", node_.op, " is not in this plugin's ops.def"));
    if (role_ == Role::none) return no("this op is not computed by the CPU plugin");
    if (node_.version > row.version) {
      return no(text("version ", node_.version, " is newer than version ", row.version, " known here"));
    }
    if (node_.input_count != row.inputs_min || node_.output_count != 1) {
      return malformed(text("has ", node_.input_count, " inputs and ", node_.output_count,
                            " outputs; the op has ", row.inputs_min, " and 1"));
    }
    for (uint32_t i = 0; i < node_.input_count; ++i) {
      if (node_.inputs[i] == TN_ABSENT) return malformed(text("input ", i, " is absent and not optional"));
    }
    if (node_.outputs[0] == TN_ABSENT) return malformed("its output is absent");
    return {};
  }

  Status wrong_dtype(const char* rule) const {
    std::string got;
    for (uint32_t i = 0; i < node_.input_count; ++i) got += text(i == 0 ? "" : ", ", in(i).dtype_name());
    return malformed(text("takes ", rule, "; it got (", got, ") → ", out().dtype_name()));
  }

  Status check_dtypes() const {
    const uint32_t n = node_.input_count, result = out().dtype();
    const uint32_t first = n > 0 ? in(0).dtype() : result;
    const uint32_t last = n > 0 ? in(n - 1).dtype() : result;
    bool same = true;
    for (uint32_t i = 1; i < n; ++i) same = same && (in(i).dtype() == first);
    switch (dtypes_of(node_.op)) {
      case Dtypes::FLOAT:
        return same && is_float(first) && result == first ? Status() : wrong_dtype("one float type");
      case Dtypes::NUMBER:
        return same && first != TN_DTYPE_bool && result == first ? Status()
                                                                 : wrong_dtype("one type that is not bool");
      case Dtypes::ANY:
        return same && result == first ? Status() : wrong_dtype("one type");
      case Dtypes::COMPARE:
        return same && result == TN_DTYPE_bool ? Status() : wrong_dtype("one type and gives bool");
      case Dtypes::LOGIC:
        return same && first == TN_DTYPE_bool && result == first ? Status()
                                                                 : wrong_dtype("bool and gives bool");
      case Dtypes::SELECT:
        return first == TN_DTYPE_bool && in(1).dtype() == last && result == last
                   ? Status()
                   : wrong_dtype("bool and twice the result's type");
      case Dtypes::CAST:
        return attribute_dtype(node_, "dtype") == result
                   ? Status()
                   : wrong_dtype("attribute `dtype` as its result's type");
      case Dtypes::INDEX:
        return first != TN_DTYPE_bool && result == TN_DTYPE_i64 ? Status()
                                                                : wrong_dtype("a number and gives i64");
      default:
        return no("its dtype rule is not known to the CPU plugin");
    }
  }

  Status wrong_shape(std::span<const int64_t> expected) const {
    return malformed(text("its output is ", words(out().dims()), " and must be ", words(expected)));
  }
  Status expect(std::span<const int64_t> dims) const {
    const auto given = out().dims();
    return std::equal(given.begin(), given.end(), dims.begin(), dims.end()) ? Status() : wrong_shape(dims);
  }

  // Elementwise ops, broadcast_to and constant: every input fits the output, which is no larger than it has to be.
  Status check_broadcast() const {
    if (node_.op == TN_OP_broadcast_to || node_.op == TN_OP_constant) {
      const auto shape = attribute_i64s(node_, "shape");
      if (!shape) return malformed("attribute `shape` is missing");
      TN_TRY(expect(*shape));
    }
    const auto dims = out().dims();
    for (uint32_t n = 0; n < node_.input_count; ++n) TN_TRY(check_fits(n, in(n).dims(), dims));
    if (role_ != Role::elementwise || node_.op == TN_OP_broadcast_to || node_.op == TN_OP_constant) return {};
    for (size_t i = 0; i < dims.size(); ++i) {
      bool found = dims[i] == 1;
      for (uint32_t n = 0; n < node_.input_count && !found; ++n)
        found = dim_from_right(in(n), dims.size() - i) == dims[i];
      if (!found) return malformed(text("dim ", i, " of the output is ", dims[i], ", and no input's is"));
    }
    return {};
  }
  static int64_t dim_from_right(TensorView tensor, size_t i) {
    return i <= tensor.rank() ? tensor.dims()[tensor.rank() - i] : 1;
  }

  Status check_fits(uint32_t n, std::span<const int64_t> given, std::span<const int64_t> dims) const {
    bool fits = given.size() <= dims.size();
    for (size_t i = 1; fits && i <= given.size(); ++i) {
      fits = given[given.size() - i] == 1 || given[given.size() - i] == dims[dims.size() - i];
    }
    if (fits) return {};
    return malformed(text("input ", n, " is ", words(given), ", which does not broadcast to ", words(dims)));
  }

  Status check_reduction() const {
    const auto axes = attribute_i64s(node_, "axes");
    if (!axes) return malformed("attribute `axes` is missing");
    const auto rank = static_cast<int64_t>(in(0).rank());
    std::bitset<TN_MAX_RANK> reduced;
    for (const int64_t axis : *axes) {
      const int64_t at = axis < 0 ? axis + rank : axis;
      if (at < 0 || at >= rank || reduced[static_cast<size_t>(at)]) {
        return malformed(
            text("axis ", axis, " of ", words(*axes), " is outside rank ", rank, " or named twice"));
      }
      reduced.set(static_cast<size_t>(at));
    }
    if (node_.op == TN_OP_argmax && axes->size() != 1)
      return malformed(text("takes one axis, not ", axes->size()));
    std::vector<int64_t> dims;
    const bool keep = attribute_i64(node_, "keepdims").value_or(0) != 0;
    for (uint32_t i = 0; i < in(0).rank(); ++i) {
      if (!reduced[i])
        dims.push_back(in(0).dims()[i]);
      else if (keep)
        dims.push_back(1);
    }
    return expect(dims);
  }

  Status check_matmul() const {
    const TensorView a = in(0), b = in(1), c = out();
    if (a.rank() < 2 || b.rank() < 2)
      return malformed(text("takes ranks of 2 and more, not ", a.rank(), " and ", b.rank()));
    const bool ta = attribute_i64(node_, "transpose_a").value_or(0) != 0,
               tb = attribute_i64(node_, "transpose_b").value_or(0) != 0;
    const auto row = [](TensorView t, bool turned) { return t.dims()[t.rank() - (turned ? 1 : 2)]; };
    const auto column = [](TensorView t, bool turned) { return t.dims()[t.rank() - (turned ? 2 : 1)]; };
    if (column(a, ta) != row(b, tb)) {
      return malformed(text("multiplies ", words(a.dims()), " by ", words(b.dims()), ": ", column(a, ta),
                            " columns meet ", row(b, tb), " rows"));
    }
    std::vector<int64_t> dims(std::max(a.rank(), b.rank()), 1);
    dims[dims.size() - 2] = row(a, ta);
    dims[dims.size() - 1] = column(b, tb);
    for (size_t i = 3; i <= dims.size(); ++i) {
      const int64_t x = dim_from_right(a, i), y = dim_from_right(b, i);
      if (x != y && x != 1 && y != 1) {
        return malformed(text("batches ", words(a.dims()), " and ", words(b.dims()), " do not broadcast"));
      }
      dims[dims.size() - i] = x == 1 ? y : x;
    }
    return c.rank() == dims.size() ? expect(dims) : wrong_shape(dims);
  }

  Status check_reshape() const {
    if (in(0).elements() == out().elements()) return {};
    return malformed(
        text(words(in(0).dims()), " and ", words(out().dims()), " have different counts of elements"));
  }

  Status check_transpose() const {
    const auto order = attribute_i64s(node_, "order");
    if (!order) return malformed("attribute `order` is missing");
    std::bitset<TN_MAX_RANK> seen;
    std::vector<int64_t> dims;
    for (const int64_t i : *order) {
      if (i < 0 || i >= in(0).rank() || seen[static_cast<size_t>(i)]) {
        return malformed(text("order ", words(*order), " is no permutation of ", in(0).rank(), " dims"));
      }
      seen.set(static_cast<size_t>(i));
      dims.push_back(in(0).dims()[i]);
    }
    if (dims.size() != in(0).rank())
      return malformed(text("order ", words(*order), " misses dims of rank ", in(0).rank()));
    return expect(dims);
  }

  const FragmentView& fragment_;
  uint32_t index_;
  const tn_node& node_;
  Role role_;
};

Status check_tensor(const FragmentView& fragment, uint32_t index) {
  const tn_tensor& tensor = fragment.tensors()[index];
  if (author::dtype_row(tensor.dtype).reserved) {
    return Status(TN_UNSUPPORTED,
                  text("tensor ", index, " is ", dtype_name(tensor.dtype), ", which no op here takes"));
  }
  if (tensor.layout != 0) {
    return Status(TN_UNSUPPORTED,
                  text("tensor ", index, " has private layout ", tensor.layout, "; this plugin has none"));
  }
  if ((tensor.flags & TN_TENSOR_CONSTANT) == 0) return {};
  const TensorView view = fragment.tensor(index);
  const uint64_t bytes = author::dtype_bytes(view.dtype(), view.elements());
  if (tensor.constant_bytes >= bytes) return {};
  return Status(TN_INVALID,
                text("constant tensor ", index, " has ", tensor.constant_bytes, " bytes and needs ", bytes));
}

// Outputs are written element by element, so two elements cannot share a place.
Status check_output(const FragmentView& fragment, uint32_t index) {
  const TensorView tensor = fragment.tensor(index);
  const auto strides = tensor.strides();
  for (uint32_t i = 0; i < tensor.rank(); ++i) {
    if (strides[i] == 0 && tensor.dims()[i] > 1 && tensor.elements() != 0) {
      return Status(TN_UNSUPPORTED, text("output tensor ", index, " has stride 0 over dim ", i, " of ",
                                         tensor.dims()[i], ": its elements would overwrite one another"));
    }
  }
  return {};
}

// What is read was given or computed before.
Status check_order(const FragmentView& fragment) {
  std::vector<bool> known(fragment.tensors().size());
  for (const uint32_t i : fragment.inputs()) known[i] = true;
  for (size_t i = 0; i < known.size(); ++i) {
    if (fragment.tensor(static_cast<uint32_t>(i)).is_constant()) known[i] = true;
  }
  for (uint32_t n = 0; n < fragment.nodes().size(); ++n) {
    const tn_node& node = fragment.nodes()[n];
    for (uint32_t i = 0; i < node.input_count; ++i) {
      if (known[node.inputs[i]]) continue;
      return Status(TN_INVALID, text(node_name(fragment, n), ": reads tensor ", node.inputs[i],
                                     " before it is computed"));
    }
    if (known[node.outputs[0]]) {
      return Status(TN_INVALID,
                    text(node_name(fragment, n), ": writes tensor ", node.outputs[0], " a second time"));
    }
    known[node.outputs[0]] = true;
  }
  for (const uint32_t i : fragment.outputs()) {
    if (!known[i]) return Status(TN_INVALID, text("output tensor ", i, " is computed by no node"));
  }
  return {};
}

}  // namespace

Role role_of(uint32_t op) noexcept {
  if ((op >= TN_OP_neg && op <= TN_OP_identity) || (op >= TN_OP_add && op <= TN_OP_tanh_grad))
    return Role::elementwise;
  if (op >= TN_OP_where && op <= TN_OP_fma) return Role::elementwise;
  if (op >= TN_OP_sum && op <= TN_OP_argmax) return Role::reduction;
  switch (op) {
    case TN_OP_matmul:
      return Role::matmul;
    case TN_OP_reshape:
      return Role::reshape;
    case TN_OP_transpose:
      return Role::transpose;
    case TN_OP_broadcast_to:
    case TN_OP_constant:
      return Role::elementwise;
    default:
      return Role::none;
  }
}

std::string node_name(const FragmentView& fragment, uint32_t node) {
  return text("node ", node, " (", author::op_name(fragment.nodes()[node].op), ")");
}

Status check_fragment(const FragmentView& fragment) {
  if (fragment.nodes().empty()) return Status(TN_INVALID, "the fragment has no nodes");
  for (uint32_t i = 0; i < fragment.tensors().size(); ++i) TN_TRY(check_tensor(fragment, i));
  for (uint32_t i = 0; i < fragment.nodes().size(); ++i) TN_TRY(NodeCheck(fragment, i).run());
  for (const uint32_t i : fragment.outputs()) TN_TRY(check_output(fragment, i));
  return check_order(fragment);
}

Axes axes_of(const tn_node& node, uint32_t rank) {
  std::bitset<TN_MAX_RANK> reduced;
  const auto named = attribute_i64s(node, "axes").value_or(std::span<const int64_t>{});
  for (const int64_t axis : named) reduced.set(static_cast<size_t>(axis < 0 ? axis + rank : axis));
  Axes out;
  for (uint32_t i = 0; i < rank; ++i) {
    if (reduced[i])
      out.reduced[out.reduced_count++] = i;
    else
      out.kept[out.kept_count++] = i;
  }
  return out;
}

}  // namespace tenon::cpu
