// SPDX-License-Identifier: Apache-2.0
// rules.cpp: what a profile refuses, and the dtype and attribute columns of ops.def.
#include "rules.hpp"

#include "node.hpp"

#include <tenon/author/text.hpp>

#include <algorithm>

namespace tenon::sim {

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

Status check_tensor(const author::FragmentView& f, uint32_t index, const Profile& profile) {
  const tn_tensor& raw = f.tensors()[index];
  const author::TensorView tensor(raw);
  if (author::dtype_row(raw.dtype).reserved || profile.refuses_dtype(tensor.dtype_name())) {
    return Status(TN_UNSUPPORTED, text("tensor ", index, " is ", tensor.dtype_name(),
                                       ", which kernels of profile '", profile.name, "' refuse"));
  }
  if (raw.layout > (profile.private_layout.empty() ? 0u : 1u)) {
    return Status(TN_UNSUPPORTED, text("tensor ", index, " has private layout ", raw.layout, "; profile '",
                                       profile.name, "' has ", profile.private_layout.empty() ? 0 : 1));
  }
  const uint64_t needed = author::dtype_bytes(raw.dtype, tensor.elements());
  if (tensor.is_constant() && raw.constant_bytes < needed) {
    return Status(TN_INVALID,
                  text("constant tensor ", index, " has ", raw.constant_bytes, " bytes and needs ", needed));
  }
  return {};
}

// Outputs are written element by element, so no two elements may share a place.
Status check_written(const author::FragmentView& f, uint32_t index) {
  const author::TensorView tensor = f.tensor(index);
  if (tensor.is_constant()) return Status(TN_INVALID, text("output tensor ", index, " is a constant"));
  if (tensor.raw().strides == nullptr || tensor.elements() < 2) return {};
  std::vector<std::pair<int64_t, int64_t>> steps;  // stride, dim
  for (uint32_t i = 0; i < tensor.rank(); ++i) {
    if (tensor.dims()[i] > 1) steps.emplace_back(tensor.raw().strides[i], tensor.dims()[i]);
  }
  std::ranges::sort(steps);
  int64_t reach = 0;
  for (const auto& [stride, dim] : steps) {
    if (stride <= reach) {
      return Status(TN_INVALID, text("output tensor ", index,
                                     " has strides under which two elements may share "
                                     "a place (a stride of ",
                                     stride, " inside a reach of ", reach, ")"));
    }
    reach += stride * (dim - 1);
  }
  return {};
}

// A node may read what is an input, a constant, or made before it.
Status check_order(const author::FragmentView& f) {
  std::vector<bool> made(f.tensors().size());
  for (const uint32_t index : f.inputs()) made[index] = true;
  for (uint32_t i = 0; i < f.tensors().size(); ++i) made[i] = made[i] || f.tensor(i).is_constant();
  for (const tn_node& node : f.nodes()) {
    for (uint32_t i = 0; i < node.input_count; ++i) {
      if (node.inputs[i] == TN_ABSENT || made[node.inputs[i]]) continue;
      return Status(TN_INVALID,
                    text(author::op_name(node.op), " reads tensor ", node.inputs[i], " before it is made"));
    }
    for (uint32_t i = 0; i < node.output_count; ++i) {
      if (node.outputs[i] != TN_ABSENT) made[node.outputs[i]] = true;
    }
  }
  for (const uint32_t index : f.outputs()) {
    if (!made[index]) return Status(TN_INVALID, text("output tensor ", index, " is made by no node"));
  }
  return {};
}

}  // namespace

Status check_fragment(const author::FragmentView& f, const Profile& profile) {
  const size_t nodes = f.nodes().size();
  if (profile.whole_graphs && nodes == 1) {
    return Status(TN_UNSUPPORTED,
                  text("a single ", author::op_name(f.nodes()[0].op), " is no whole graph; profile '",
                       profile.name, "' runs nothing less (feature WHOLE_GRAPH)"));
  }
  if (profile.max_nodes != 0 && nodes > profile.max_nodes) {
    return Status(TN_UNSUPPORTED, text(nodes, " nodes; one kernel holds at most ", profile.max_nodes));
  }
  if (profile.max_bindings != 0 && f.binding_count() > profile.max_bindings) {
    return Status(TN_UNSUPPORTED,
                  text(f.binding_count(), " bindings; one kernel takes at most ", profile.max_bindings));
  }
  for (uint32_t i = 0; i < f.tensors().size(); ++i) TN_TRY(check_tensor(f, i, profile));
  for (uint32_t i = 0; i < nodes; ++i) {
    TN_TRY(Inquiry(f, i).run(profile));
    for (uint32_t k = 0; k < f.nodes()[i].output_count; ++k) {
      if (f.nodes()[i].outputs[k] != TN_ABSENT) TN_TRY(check_written(f, f.nodes()[i].outputs[k]));
    }
  }
  for (const uint32_t index : f.outputs()) TN_TRY(check_written(f, index));
  return check_order(f);
}

Inquiry::Inquiry(const author::FragmentView& fragment, uint32_t index)
    : fragment_(fragment), index_(index), node_(fragment.nodes()[index]) {}

Status Inquiry::no(const std::string& reason) const {
  return Status(TN_UNSUPPORTED, text("node ", index_, " (", author::op_name(node_.op), "): ", reason));
}

Status Inquiry::malformed(const std::string& reason) const {
  return Status(TN_INVALID, text("node ", index_, " (", author::op_name(node_.op), "): ", reason));
}

Dims Inquiry::integers(std::string_view name) const {
  const auto list = *author::attribute_i64s(node_, name);
  return {list.begin(), list.end()};
}

Status Inquiry::run(const Profile& profile) const {
  TN_TRY(check_known());
  TN_TRY(check_attributes());
  TN_TRY(check_dtypes());
  TN_TRY(check_layouts(profile));
  return check_shapes();
}

Status Inquiry::check_known() const {
  const author::OpRow row = author::op_row(node_.op);
  if (row.version == 0) return no(text("op ", node_.op, " is not in this plugin's ops.def"));
  if (row.family == "COLLECTIVE")
    return no("collectives are no nodes of a fragment here (no feature FRAGMENT_COLLECTIVES)");
  if (routine_of(node_.op) == nullptr) return no("this op is not computed here");
  if (node_.version <= row.version) return {};
  return no(text("version ", node_.version, " is newer than version ", row.version, " known here"));
}

Status Inquiry::check_attributes() const {
  std::string_view rest = columns_of(node_.op).attributes;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(';'), rest.size());
    std::string_view one = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    while (one.starts_with(' ')) one.remove_prefix(1);
    const std::string_view name = one.substr(0, one.find(':')), type = one.substr(one.find(':') + 1);
    const tn_attribute* const found = author::attribute(node_, name);
    if (found == nullptr) return malformed(text("attribute '", name, "' is missing"));
    if (found->kind != kind_of(type))
      return malformed(text("attribute '", name, "' is of kind ", found->kind, ", not ", kind_of(type)));
  }
  return {};
}

Status Inquiry::wrong_dtypes(std::string_view rule) const {
  std::string got;
  for (size_t i = 0; i < inputs(); ++i)
    got += text(got.empty() ? "" : ", ", has(i) ? in(i).dtype_name() : "nothing");
  for (size_t i = 0; i < node_.output_count; ++i)
    got += text(i == 0 ? " → " : ", ", gives(i) ? out(i).dtype_name() : "nothing");
  return malformed(text("takes ", rule, "; it got ", got));
}

// Every operand that is there is of `type`, or f32.
bool Inquiry::one_float_or_f32(uint32_t type) const {
  const auto good = [&](author::TensorView t) { return t.dtype() == type || t.dtype() == TN_DTYPE_f32; };
  for (size_t i = 0; i < inputs(); ++i) {
    if (has(i) && !good(in(i))) return false;
  }
  for (size_t i = 0; i < node_.output_count; ++i) {
    if (gives(i) && !good(out(i))) return false;
  }
  return is_real(type);
}

Status Inquiry::check_dtypes() const {
  const auto type = [&](size_t i) { return in(i).dtype(); };
  const size_t n = inputs();
  const uint32_t first = n > 0 && has(0) ? type(0) : 0, result = gives(0) ? out(0).dtype() : 0;
  bool same = true;
  for (size_t i = 1; i < n; ++i) same = same && (!has(i) || type(i) == first);
  const auto rule = [&](bool good, const char* words) { return good ? Status() : wrong_dtypes(words); };
  const auto whole = [](uint32_t dtype) { return !is_real(dtype) && dtype != TN_DTYPE_bool; };
  const std::string_view family = author::op_row(node_.op).family;
  switch (columns_of(node_.op).dtypes) {
    case Dtypes::FLOAT:
      if (family == "ATTENTION") return rule(one_float_or_f32(first), "one float type, logarithms in f32");
      return rule(same && is_real(first) && result == first, "one float type");
    case Dtypes::NUMBER:
      return rule(same && first != TN_DTYPE_bool && result == first, "one type that is not bool");
    case Dtypes::ANY:
      if (node_.op == TN_OP_advance && is_real(first))
        return no("moves integers, not " + std::string(in(0).dtype_name()));
      return rule(same && result == first, "one type");
    case Dtypes::COMPARE:
      return rule(same && result == TN_DTYPE_bool, "one type and gives bool");
    case Dtypes::LOGIC:
      return rule(same && first == TN_DTYPE_bool && result == first, "bool and gives bool");
    case Dtypes::SELECT:
      return rule(first == TN_DTYPE_bool && type(1) == type(2) && result == type(2),
                  "bool and twice the result's type");
    case Dtypes::CAST:
      return rule(author::attribute_dtype(node_, "dtype") == result,
                  "attribute 'dtype' as its result's type");
    case Dtypes::INDEX:
      return rule(first != TN_DTYPE_bool && result == TN_DTYPE_i64, "a number and gives i64");
    case Dtypes::NORM:
      return rule(one_float_or_f32(first), "one float type; parameters and statistics are of it or f32");
    case Dtypes::LABEL:
      return rule(is_real(first) && whole(type(1)), "float scores and integer labels");
    case Dtypes::LOOKUP:
      return rule(whole(first) && is_real(type(1)) && result == type(1),
                  "integer indices and one float type");
    case Dtypes::RANDOM:
      return rule(is_real(result) && type(n - 1) == TN_DTYPE_u64 && type(n - 2) == TN_DTYPE_u64,
                  "floats, and seed and offset of u64");
    default:
      return {};  // UPDATE: per the op's meaning; kernels take any number
  }
}

Status Inquiry::check_layouts(const Profile& profile) const {
  if (node_.op == TN_OP_convert_layout) {
    const std::string_view wanted = *author::attribute_string(node_, "layout");
    if (out(0).raw().layout != 0 ? wanted == profile.private_layout : wanted.empty() || wanted == "strided")
      return {};
    return malformed(text("attribute 'layout' is '", wanted, "', which is not its result's layout"));
  }
  for (size_t i = 0; i < inputs(); ++i) {
    if (!has(i) || in(i).raw().layout == 0 || (gives(0) && same_dims(in(i), out(0)))) continue;
    if (node_.op == TN_OP_matmul && in(i).rank() == out(0).rank()) continue;
    return no(
        text("input ", i, " has layout '", profile.private_layout, "' and is broadcast: convert it first"));
  }
  return {};
}

}  // namespace tenon::sim
