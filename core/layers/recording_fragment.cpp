// SPDX-License-Identifier: Apache-2.0
// recording_fragment.cpp: fragments in full: tensors, constants, nodes, attributes, aliases, identity.
//
// Invariant: note_of and FragmentView are inverse to each other, but for links ("next"), which are not recorded.
#include "layers/recording.hpp"

#include <algorithm>
#include <cstring>

namespace tenon::layers::recording {
namespace {

Bytes copied(const void* data, uint64_t bytes) {
  return data == nullptr ? Bytes() : Bytes(static_cast<const char*>(data), bytes);
}

uint64_t data_bytes(const tn_attribute& attribute) {
  const bool wide = attribute.kind == TN_ATTRIBUTE_I64S || attribute.kind == TN_ATTRIBUTE_F64S;
  return attribute.count * (wide ? 8 : 1);
}

std::string text(const char* chars) { return chars == nullptr ? "" : chars; }

TensorNote note_of(const tn_tensor& tensor) {
  TensorNote note{.dtype = tensor.dtype,
                  .layout = tensor.layout,
                  .flags = tensor.flags,
                  .alignment = tensor.alignment,
                  .dims = {},
                  .strides = {},
                  .constant = copied(tensor.constant, tensor.constant_bytes)};
  note.dims.assign(tensor.dims, tensor.dims + tensor.rank);
  if (tensor.strides != nullptr) note.strides.assign(tensor.strides, tensor.strides + tensor.rank);
  return note;
}

NodeNote note_of(const tn_node& node) {
  NodeNote note{.op = node.op,
                .op_version = node.version,
                .inputs = {},
                .outputs = {},
                .attributes = {},
                .name = text(node.name)};
  note.inputs.assign(node.inputs, node.inputs + node.input_count);
  note.outputs.assign(node.outputs, node.outputs + node.output_count);
  for (uint32_t i = 0; i < node.attribute_count; ++i) {
    const tn_attribute& each = node.attributes[i];
    note.attributes.push_back({.name = text(each.name),
                               .kind = each.kind,
                               .count = each.count,
                               .i64 = each.i64,
                               .f64 = each.f64,
                               .data = copied(each.data, data_bytes(each))});
  }
  return note;
}

tn_tensor abi_of(const TensorNote& note) {
  tn_tensor tensor{};
  tensor.dtype = note.dtype;
  tensor.rank = static_cast<uint32_t>(note.dims.size());
  tensor.dims = note.dims.data();
  tensor.strides =
      note.strides.size() == note.dims.size() && !note.strides.empty() ? note.strides.data() : nullptr;
  tensor.layout = note.layout;
  tensor.flags = note.flags;
  tensor.alignment = note.alignment;
  tensor.constant = note.constant.empty() ? nullptr : note.constant.data();
  tensor.constant_bytes = note.constant.size();
  return tensor;
}

tn_attribute abi_of(const AttributeNote& note) {
  tn_attribute attribute{};
  attribute.name = note.name.c_str();
  attribute.kind = note.kind;
  attribute.count = note.count;
  attribute.i64 = note.i64;
  attribute.f64 = note.f64;
  attribute.data = note.data.empty() ? nullptr : note.data.data();
  return attribute;
}

bool known(const std::vector<uint32_t>& indexes, size_t count, bool may_be_absent) {
  return std::ranges::all_of(indexes,
                             [&](uint32_t i) { return i < count || (may_be_absent && i == TN_ABSENT); });
}

bool sound(const TensorNote& tensor) {
  const auto negative = [](int64_t value) { return value < 0; };
  return tensor.dims.size() <= TN_MAX_RANK && std::ranges::none_of(tensor.dims, negative) &&
         std::ranges::none_of(tensor.strides, negative) &&
         (tensor.strides.empty() || tensor.strides.size() == tensor.dims.size());
}

bool sound(const AttributeNote& attribute) {
  const bool scalar = attribute.kind == TN_ATTRIBUTE_I64 || attribute.kind == TN_ATTRIBUTE_F64 ||
                      attribute.kind == TN_ATTRIBUTE_DTYPE;
  tn_attribute abi{};
  abi.kind = attribute.kind;
  abi.count = attribute.count;
  return attribute.count <= UINT32_MAX && (scalar || attribute.data.size() == data_bytes(abi));
}

}  // namespace

bool sound(const FragmentNote& note) {
  const size_t count = note.tensors.size();
  const auto node_sound = [&](const NodeNote& node) {
    return known(node.inputs, count, true) && known(node.outputs, count, true) &&
           std::ranges::all_of(node.attributes, [](const AttributeNote& each) { return sound(each); });
  };
  bool aliases = note.aliases.size() % 2 == 0;
  for (size_t i = 0; aliases && i < note.aliases.size(); i += 2) {
    aliases = note.aliases[i] < note.inputs.size() && note.aliases[i + 1] < note.outputs.size();
  }
  return aliases && note.identity.size() == sizeof tn_fragment::identity &&
         known(note.inputs, count, false) && known(note.outputs, count, false) &&
         std::ranges::all_of(note.nodes, node_sound) &&
         std::ranges::all_of(note.tensors, [](const TensorNote& each) { return sound(each); });
}

FragmentNote note_of(const tn_fragment& fragment) {
  FragmentNote note;
  note.name = text(fragment.name);
  for (uint32_t i = 0; i < fragment.tensor_count; ++i) note.tensors.push_back(note_of(fragment.tensors[i]));
  for (uint32_t i = 0; i < fragment.node_count; ++i) note.nodes.push_back(note_of(fragment.nodes[i]));
  note.inputs.assign(fragment.inputs, fragment.inputs + fragment.input_count);
  note.outputs.assign(fragment.outputs, fragment.outputs + fragment.output_count);
  for (uint32_t i = 0; i < fragment.alias_count; ++i) {
    note.aliases.insert(note.aliases.end(), {fragment.aliases[i].input, fragment.aliases[i].output});
  }
  note.identity = copied(fragment.identity, sizeof fragment.identity);
  return note;
}

FragmentView::FragmentView(const FragmentNote& note) : attributes_(note.nodes.size()) {
  for (const TensorNote& each : note.tensors) tensors_.push_back(abi_of(each));
  for (size_t i = 0; i < note.nodes.size(); ++i) {
    const NodeNote& each = note.nodes[i];
    for (const AttributeNote& attribute : each.attributes) attributes_[i].push_back(abi_of(attribute));
    tn_node node{};
    node.op = each.op;
    node.version = each.op_version;
    node.input_count = static_cast<uint32_t>(each.inputs.size());
    node.output_count = static_cast<uint32_t>(each.outputs.size());
    node.attribute_count = static_cast<uint32_t>(attributes_[i].size());
    node.inputs = each.inputs.data();
    node.outputs = each.outputs.data();
    node.attributes = attributes_[i].data();
    node.name = each.name.empty() ? nullptr : each.name.c_str();
    nodes_.push_back(node);
  }
  for (size_t i = 0; i + 1 < note.aliases.size(); i += 2)
    aliases_.push_back({note.aliases[i], note.aliases[i + 1]});
  fragment_.size = sizeof fragment_;
  fragment_.tensors = tensors_.data();
  fragment_.nodes = nodes_.data();
  fragment_.inputs = note.inputs.data();
  fragment_.outputs = note.outputs.data();
  fragment_.aliases = aliases_.data();
  fragment_.tensor_count = static_cast<uint32_t>(tensors_.size());
  fragment_.node_count = static_cast<uint32_t>(nodes_.size());
  fragment_.input_count = static_cast<uint32_t>(note.inputs.size());
  fragment_.output_count = static_cast<uint32_t>(note.outputs.size());
  fragment_.alias_count = static_cast<uint32_t>(aliases_.size());
  fragment_.name = note.name.empty() ? nullptr : note.name.c_str();
  std::memcpy(fragment_.identity, note.identity.data(),
              std::min(note.identity.size(), sizeof fragment_.identity));
}

}  // namespace tenon::layers::recording
