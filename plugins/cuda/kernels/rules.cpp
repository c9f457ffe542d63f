// SPDX-License-Identifier: Apache-2.0
// rules.cpp: which fragments are taken: ops, attributes, dtypes, constants, outputs and order.
#include "rules.hpp"

#include "expression.hpp"
#include "program.hpp"
#include "schedule.hpp"

#include <tenon/author/text.hpp>

#include <algorithm>

namespace tenon::cuda {

using author::attribute;
using author::text;

namespace {

constexpr size_t most_nodes = 128;
constexpr uint32_t most_bindings = 64;
constexpr uint64_t most_constant_bytes = 64 << 10;
constexpr uint64_t most_elements = uint64_t{1} << 38;

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

struct Columns {
  Dtypes dtypes;
  std::string_view attributes;  // "axes:ints; keepdims:int=0"
};

constexpr Columns columns_of(uint32_t op) {
  switch (op) {
#define TN_OP(number, name, version, least, most, outputs, family, dtypes, shape, tolerance, attributes, \
              doc)                                                                                       \
  case number:                                                                                           \
    return {Dtypes::dtypes, attributes};
#include <tenon/ops.def>
    default:
      return {Dtypes::ANY, ""};
  }
}

uint32_t kind_of(std::string_view type) {
  if (type.starts_with("ints")) return TN_ATTRIBUTE_I64S;
  if (type.starts_with("int")) return TN_ATTRIBUTE_I64;
  if (type.starts_with("float")) return TN_ATTRIBUTE_F64;
  return type.starts_with("string") ? TN_ATTRIBUTE_STRING : TN_ATTRIBUTE_DTYPE;
}

bool is_whole(uint32_t dtype) { return !author::is_float(dtype) && dtype != TN_DTYPE_bool; }

bool moves(uint32_t op) {
  switch (op) {
    case TN_OP_reshape:
    case TN_OP_transpose:
    case TN_OP_concat:
    case TN_OP_slice:
    case TN_OP_pad:
    case TN_OP_broadcast_to:
    case TN_OP_constant:
    case TN_OP_convert_layout:
    case TN_OP_one_hot:
    case TN_OP_embedding:
      return true;
    default:
      return false;
  }
}

Status check_tensor(const FragmentView& fragment, uint32_t index) {
  const tn_tensor& raw = fragment.tensors()[index];
  const TensorView tensor(raw);
  if (author::dtype_row(raw.dtype).reserved) {
    return Status(TN_UNSUPPORTED, text("tensor ", index, " is ", tensor.dtype_name(),
                                       ", which no op here takes: cast it to a wider type first"));
  }
  if (raw.layout != 0) {
    return Status(TN_UNSUPPORTED, text("tensor ", index, " has private layout ", raw.layout,
                                       "; this device has none: give it strides"));
  }
  if (tensor.elements() > most_elements || tensor.extent_bytes() > most_elements * 8) {
    return Status(TN_UNSUPPORTED, text("tensor ", index, " has ", tensor.elements(), " elements over ",
                                       tensor.extent_bytes(), " bytes; one launch reaches ", most_elements));
  }
  if (!tensor.is_constant()) return {};
  const uint64_t bytes = author::dtype_bytes(raw.dtype, tensor.elements());
  if (raw.constant_bytes < bytes) {
    return Status(TN_INVALID,
                  text("constant tensor ", index, " has ", raw.constant_bytes, " bytes and needs ", bytes));
  }
  if (bytes <= most_constant_bytes) return {};
  return Status(TN_UNSUPPORTED,
                text("constant tensor ", index, " has ", bytes, " bytes; a source holds at most ",
                     most_constant_bytes, ": bind it as an input"));
}

// Outputs are written element by element, in any order: no two may share a place.
Status check_written(const FragmentView& fragment, uint32_t index) {
  const TensorView tensor = fragment.tensor(index);
  if (tensor.raw().strides == nullptr || tensor.elements() < 2) return {};
  std::array<std::pair<int64_t, int64_t>, TN_MAX_RANK> steps;  // stride, dim
  size_t count = 0;
  for (uint32_t i = 0; i < tensor.rank(); ++i) {
    if (tensor.dims()[i] > 1) steps[count++] = {tensor.raw().strides[i], tensor.dims()[i]};
  }
  std::sort(steps.begin(), steps.begin() + static_cast<std::ptrdiff_t>(count));
  int64_t reach = 0;
  for (size_t i = 0; i < count; ++i) {
    if (steps[i].first <= reach) {
      return Status(TN_INVALID, text("output tensor ", index, " has a stride of ", steps[i].first,
                                     " inside a reach of ", reach, ": two elements may share a place"));
    }
    reach += steps[i].first * (steps[i].second - 1);
  }
  return {};
}

std::string node_words(const FragmentView& fragment, uint32_t node) {
  return text("node ", node, " (", author::op_name(fragment.nodes()[node].op), ")");
}

// A node reads what is an input, a constant, or made before it; nothing is made twice.
class Order {
 public:
  explicit Order(const FragmentView& fragment) : fragment_(fragment) {
    if (fragment.tensors().size() > small_.size()) large_.resize(fragment.tensors().size());
    for (const uint32_t index : fragment.inputs()) made(index) = true;
    for (uint32_t i = 0; i < fragment.tensors().size(); ++i) {
      if (fragment.tensor(i).is_constant()) made(i) = true;
    }
  }

  Status check() {
    for (uint32_t n = 0; n < fragment_.nodes().size(); ++n) {
      const tn_node& node = fragment_.nodes()[n];
      for (uint32_t i = 0; i < node.input_count; ++i) {
        if (made(node.inputs[i])) continue;
        return Status(TN_INVALID, text(node_words(fragment_, n), ": reads tensor ", node.inputs[i],
                                       " before it is computed"));
      }
      if (made(node.outputs[0])) {
        return Status(TN_INVALID,
                      text(node_words(fragment_, n), ": writes tensor ", node.outputs[0], " a second time"));
      }
      made(node.outputs[0]) = true;
    }
    for (const uint32_t index : fragment_.outputs()) {
      if (!made(index)) return Status(TN_INVALID, text("output tensor ", index, " is computed by no node"));
    }
    return {};
  }

 private:
  bool& made(uint32_t index) { return large_.empty() ? small_[index] : large_[index].value; }

  struct Flag {
    bool value = false;
  };
  const FragmentView& fragment_;
  std::array<bool, 256> small_{};
  std::vector<Flag> large_{};
};

}  // namespace

Status NodeRules::no(const std::string& reason) const {
  return Status(TN_UNSUPPORTED, node_words(fragment_, index_) + ": " + reason);
}
Status NodeRules::malformed(const std::string& reason) const {
  return Status(TN_INVALID, node_words(fragment_, index_) + ": " + reason);
}

Status NodeRules::check() const {
  TN_TRY(check_op());
  TN_TRY(check_attributes());
  TN_TRY(check_dtypes());
  return check_shapes();
}

Status NodeRules::check_op() const {
  const author::OpRow row = author::op_row(node_.op);
  if (row.version == 0) return no(text("op ", node_.op, " is not in this plugin's ops.def"));
  if (!is_computed(node_.op) && !is_reduction(node_.op) && !moves(node_.op))
    return no("no kernel is written for this op: compute it on another device, or from ops that have one");
  if (node_.version > row.version)
    return no(text("version ", node_.version, " is newer than version ", row.version, " known here"));
  for (uint32_t i = 0; i < node_.input_count; ++i) {
    if (node_.inputs[i] == TN_ABSENT) return malformed(text("input ", i, " is absent and not optional"));
  }
  return {};
}

Status NodeRules::check_attributes() const {
  std::string_view rest = columns_of(node_.op).attributes;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(';'), rest.size());
    std::string_view one = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    while (one.starts_with(' ')) one.remove_prefix(1);
    const std::string_view name = one.substr(0, one.find(':')), type = one.substr(one.find(':') + 1);
    const tn_attribute* const found = attribute(node_, name);
    if (found == nullptr) return malformed(text("attribute '", name, "' is missing"));
    if (found->kind != kind_of(type))
      return malformed(text("attribute '", name, "' is of kind ", found->kind, ", not ", kind_of(type)));
  }
  return {};
}

Status NodeRules::wrong_dtypes(const char* rule) const {
  std::string got;
  for (uint32_t i = 0; i < node_.input_count; ++i) got += text(i == 0 ? "" : ", ", in(i).dtype_name());
  return malformed(text("takes ", rule, "; it got (", got, ") → ", out().dtype_name()));
}

Status NodeRules::check_dtypes() const {
  const uint32_t n = node_.input_count, result = out().dtype();
  const uint32_t first = n > 0 ? in(0).dtype() : result;
  bool same = true;
  for (uint32_t i = 1; i < n; ++i) same = same && in(i).dtype() == first;
  const auto rule = [&](bool good, const char* takes) { return good ? Status() : wrong_dtypes(takes); };
  switch (columns_of(node_.op).dtypes) {
    case Dtypes::FLOAT:
      return rule(same && author::is_float(first) && result == first, "one float type");
    case Dtypes::NUMBER:
      return rule(same && first != TN_DTYPE_bool && result == first, "one type that is not bool");
    case Dtypes::ANY:
      if (node_.op == TN_OP_advance && !is_whole(first))
        return no(text("moves integers, not ", in(0).dtype_name(), ": use add"));
      return rule(same && result == first, "one type");
    case Dtypes::COMPARE:
      return rule(same && result == TN_DTYPE_bool, "one type and gives bool");
    case Dtypes::LOGIC:
      return rule(same && first == TN_DTYPE_bool && result == first, "bool and gives bool");
    case Dtypes::SELECT:
      return rule(first == TN_DTYPE_bool && in(1).dtype() == in(2).dtype() && result == in(2).dtype(),
                  "bool and twice the result's type");
    case Dtypes::CAST:
      if (node_.op == TN_OP_one_hot && author::is_float(first))
        return no(text("takes integer indices, not ", in(0).dtype_name(), ": cast them first"));
      return rule(author::attribute_dtype(node_, "dtype") == result,
                  "attribute 'dtype' as its result's type");
    case Dtypes::INDEX:
      return rule(first != TN_DTYPE_bool && result == TN_DTYPE_i64, "a number and gives i64");
    case Dtypes::LOOKUP:
      return rule(is_whole(first) && author::is_float(in(1).dtype()) && result == in(1).dtype(),
                  "integer indices and one float type");
    case Dtypes::RANDOM: {
      const bool drawn = in(n - 1).dtype() == TN_DTYPE_u64 && in(n - 2).dtype() == TN_DTYPE_u64;
      const bool typed = n == 3 ? first == result : author::attribute_dtype(node_, "dtype") == result;
      return rule(author::is_float(result) && drawn && typed, "one float type, and seed and offset of u64");
    }
    default:
      return no("its dtype rule is not known here");
  }
}

Status check_fragment(const FragmentView& fragment) {
  if (fragment.nodes().empty()) return Status(TN_INVALID, "the fragment has no nodes");
  if (fragment.nodes().size() > most_nodes) {
    return Status(TN_UNSUPPORTED, text("the fragment has ", fragment.nodes().size(), " nodes; at most ",
                                       most_nodes, " become one program: cut it"));
  }
  if (fragment.binding_count() > most_bindings) {
    return Status(TN_UNSUPPORTED, text("the fragment has ", fragment.binding_count(),
                                       " bindings; one program takes ", most_bindings, ": cut it"));
  }
  for (uint32_t i = 0; i < fragment.tensors().size(); ++i) TN_TRY(check_tensor(fragment, i));
  for (uint32_t i = 0; i < fragment.nodes().size(); ++i) TN_TRY(NodeRules(fragment, i).check());
  for (const uint32_t index : fragment.outputs()) TN_TRY(check_written(fragment, index));
  return Order(fragment).check();
}

}  // namespace tenon::cuda
