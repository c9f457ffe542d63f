// SPDX-License-Identifier: Apache-2.0
// fragment_check.hpp: whether a fragment is well formed, decided before an author sees it.
//
// Invariant: after check_fragment every index is inside its list, every pointer that a count needs is there,
// every rank is at most TN_MAX_RANK, every dim is concrete, and every op of this SDK has its operands, the
// optional ones aside. Whether types and shapes make sense together is the author's (and the host's) affair.
#pragma once

#include <tenon/author/fragment_view.hpp>
#include <tenon/author/links.hpp>

#include <bit>

namespace tenon::author {

namespace detail {

// What is being looked at; turned into words only when something is wrong with it.
struct Suspect {
  const tn_fragment& fragment;
  const char* list;  // "inputs" of the fragment, or of node `node`
  uint32_t node = TN_ABSENT;

  [[gnu::cold, gnu::noinline]] Status say(std::string_view what) const {
    std::string where = text("fragment '", FragmentView(fragment).name(), "': ");
    if (node != TN_ABSENT) where += text("node ", node, " (", op_name(fragment.nodes[node].op), "): ");
    return Status(TN_INVALID, text(where, list, " ", what));
  }
};

template <class Element>
Status check_list(const Suspect& suspect, const Element* list, uint64_t count) {
  if (count == 0 || list != nullptr) return {};
  return suspect.say(text("is NULL, but its count is ", count));
}

inline Status check_indexes(const Suspect& suspect, const uint32_t* list, uint32_t count,
                            bool absent_is_legal) {
  TN_TRY(check_list(suspect, list, count));
  for (uint32_t i = 0; i < count; ++i) {
    if (list[i] < suspect.fragment.tensor_count || (absent_is_legal && list[i] == TN_ABSENT)) continue;
    return suspect.say(text("names tensor ", list[i], " of ", suspect.fragment.tensor_count));
  }
  return {};
}

inline Status check_dims(const tn_tensor& t, const Suspect& suspect, uint32_t index) {
  uint64_t elements = 1;
  for (uint32_t i = 0; i < t.rank; ++i) {
    if (t.dims[i] < 0) return suspect.say(text(index, ": dim ", i, " is ", t.dims[i], "; dims are concrete"));
    if (t.strides != nullptr && t.strides[i] < 0) {
      return suspect.say(text(index, ": stride ", i, " is ", t.strides[i], "; strides are not negative"));
    }
    if (__builtin_mul_overflow(elements, static_cast<uint64_t>(t.dims[i]), &elements)) {
      return suspect.say(text(index, ": has over 2^64 elements"));
    }
  }
  return {};
}

template <class Plugin>
Status check_tensor(const tn_fragment& f, uint32_t index) {
  const tn_tensor& t = f.tensors[index];
  const Suspect suspect{f, "tensor"};
  if (dtype_bits(t.dtype) == 0) return suspect.say(text(index, ": dtype ", t.dtype, " is not in dtypes.def"));
  if (t.rank > TN_MAX_RANK) return suspect.say(text(index, ": rank ", t.rank, " is over ", TN_MAX_RANK));
  if (t.rank > 0 && t.dims == nullptr) return suspect.say(text(index, ": dims is NULL"));
  if (t.alignment != 0 && !std::has_single_bit(t.alignment)) {
    return suspect.say(text(index, ": alignment ", t.alignment, " is no power of two"));
  }
  if ((t.flags & TN_TENSOR_CONSTANT) != 0 && t.constant == nullptr && t.constant_bytes != 0) {
    return suspect.say(text(index, ": constant is NULL"));
  }
  TN_TRY(check_dims(t, suspect, index));
  return check_links<Plugin>(t.next, "tensor");
}

// Whether a node has as many operands as its row in ops.def says. An op or a version newer than this SDK may
// have any.
inline Status check_operands(const tn_fragment& f, uint32_t index) {
  const tn_node& node = f.nodes[index];
  const OpRow row = op_row(node.op);
  if (node.version > row.version) return {};
  const bool fits_in = node.input_count >= row.inputs_min &&
                       (row.inputs_max == TN_OP_MANY || node.input_count <= row.inputs_max);
  if (!fits_in)
    return Suspect{f, "inputs", index}.say(
        text("are ", node.input_count, ", from ", row.inputs_min, " on are legal"));
  for (uint32_t i = 0; i < row.inputs_min; ++i) {
    if (node.inputs[i] == TN_ABSENT) return Suspect{f, "inputs", index}.say(text(i, " is not optional"));
  }
  const bool fits_out = row.outputs == TN_OP_MANY || (row.outputs > 1 ? node.output_count <= row.outputs
                                                                      : node.output_count == row.outputs);
  if (!fits_out)
    return Suspect{f, "outputs", index}.say(text("are ", node.output_count, ", the op has ", row.outputs));
  if (row.outputs == 1 && node.outputs[0] == TN_ABSENT)
    return Suspect{f, "outputs", index}.say("0 is not optional");
  return {};
}

template <class Plugin>
Status check_node(const tn_fragment& f, uint32_t index) {
  const tn_node& node = f.nodes[index];
  const Suspect attributes{f, "attributes", index};
  TN_TRY(check_indexes({f, "inputs", index}, node.inputs, node.input_count, true));
  TN_TRY(check_indexes({f, "outputs", index}, node.outputs, node.output_count, true));
  TN_TRY(check_operands(f, index));
  TN_TRY(check_list(attributes, node.attributes, node.attribute_count));
  for (uint32_t i = 0; i < node.attribute_count; ++i) {
    const tn_attribute& a = node.attributes[i];
    if (a.name == nullptr) return attributes.say(text(": number ", i, " has no name"));
    const bool listed = a.kind == TN_ATTRIBUTE_I64S || a.kind == TN_ATTRIBUTE_F64S ||
                        a.kind == TN_ATTRIBUTE_STRING || a.kind == TN_ATTRIBUTE_BYTES;
    if (listed) TN_TRY(check_list({f, a.name, index}, static_cast<const char*>(a.data), a.count));
  }
  return check_links<Plugin>(node.next, "node");
}

}  // namespace detail

// TN_INVALID names the tensor, node or list that is wrong; TN_UNSUPPORTED a link that had to be understood.
// [any-thread; does not block; may fail]
template <class Plugin>
Status check_fragment(const tn_fragment& f) {
  using namespace detail;
  TN_TRY(check_list({f, "tensors"}, f.tensors, f.tensor_count));
  TN_TRY(check_list({f, "nodes"}, f.nodes, f.node_count));
  TN_TRY(check_list({f, "aliases"}, f.aliases, f.alias_count));
  TN_TRY(check_indexes({f, "inputs"}, f.inputs, f.input_count, false));
  TN_TRY(check_indexes({f, "outputs"}, f.outputs, f.output_count, false));
  for (uint32_t i = 0; i < f.alias_count; ++i) {
    const tn_alias& pair = f.aliases[i];
    if (pair.input < f.input_count && pair.output < f.output_count) continue;
    return Suspect{f, "aliases"}.say(text("pair input ", pair.input, " with output ", pair.output));
  }
  for (uint32_t i = 0; i < f.tensor_count; ++i) TN_TRY(check_tensor<Plugin>(f, i));
  for (uint32_t i = 0; i < f.node_count; ++i) TN_TRY(check_node<Plugin>(f, i));
  return check_links<Plugin>(f.next, "fragment");
}

}  // namespace tenon::author
