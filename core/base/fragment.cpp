// SPDX-License-Identifier: Apache-2.0
// fragment.cpp: a Fragment's arrays and the tn_fragment that points into them.
//
// Invariant: a State is filled in place on the heap and never changes, so the pointers inside it stay good.
#include "base/fragment_state.hpp"

#include "base/identity.hpp"

#include <algorithm>

namespace tenon {
namespace {

tn_tensor view_of(const base::TensorPart& part) {
  const TensorSpec& spec = part.spec;
  tn_tensor tensor{};
  tensor.dtype = static_cast<uint32_t>(spec.dtype);
  tensor.rank = static_cast<uint32_t>(spec.dims.size());
  tensor.dims = spec.dims.data();
  tensor.strides = spec.strides.empty() ? nullptr : spec.strides.data();
  tensor.alignment = spec.alignment;
  if (part.constant != nullptr) {
    tensor.flags = TN_TENSOR_CONSTANT;
    tensor.constant = part.constant->data();
    tensor.constant_bytes = part.constant->size();
  }
  return tensor;
}

// Fills one tn_attribute from the alternative that `value` holds.
struct AttributeView {
  tn_attribute& out;
  void operator()(int64_t value) const { out.kind = TN_ATTRIBUTE_I64, out.i64 = value; }
  void operator()(double value) const { out.kind = TN_ATTRIBUTE_F64, out.f64 = value; }
  void operator()(DType value) const { out.kind = TN_ATTRIBUTE_DTYPE, out.i64 = static_cast<int64_t>(value); }
  void operator()(const std::vector<int64_t>& values) const {
    list(TN_ATTRIBUTE_I64S, values.data(), values.size());
  }
  void operator()(const std::vector<double>& values) const {
    list(TN_ATTRIBUTE_F64S, values.data(), values.size());
  }
  void operator()(const std::string& text) const { list(TN_ATTRIBUTE_STRING, text.data(), text.size()); }

 private:
  void list(uint32_t kind, const void* data, size_t count) const {
    out.kind = kind;
    out.data = data;
    out.count = count;
  }
};

std::vector<tn_attribute> views_of(const std::vector<Attribute>& attributes) {
  std::vector<tn_attribute> views;
  for (const Attribute& attribute : attributes) {
    tn_attribute view{};
    view.name = attribute.name.c_str();
    std::visit(AttributeView{view}, attribute.value);
    views.push_back(view);
  }
  return views;
}

tn_node view_of(const base::NodePart& part, const std::vector<tn_attribute>& attributes) {
  tn_node node{};
  node.op = static_cast<uint32_t>(part.op);
  node.version = part.version;
  node.input_count = static_cast<uint32_t>(part.inputs.size());
  node.output_count = static_cast<uint32_t>(part.outputs.size());
  node.attribute_count = static_cast<uint32_t>(attributes.size());
  node.inputs = part.inputs.data();
  node.outputs = part.outputs.data();
  node.attributes = attributes.data();
  return node;
}

}  // namespace

void Fragment::State::point() {
  for (const base::TensorPart& part : parts.tensors) tensors.push_back(view_of(part));
  for (const base::NodePart& part : parts.nodes) attributes.push_back(views_of(part.attributes));
  for (size_t i = 0; i < parts.nodes.size(); ++i) nodes.push_back(view_of(parts.nodes[i], attributes[i]));
  view.size = sizeof view;
  view.tensors = tensors.data();
  view.nodes = nodes.data();
  view.inputs = parts.inputs.data();
  view.outputs = parts.outputs.data();
  view.aliases = parts.aliases.data();
  view.tensor_count = static_cast<uint32_t>(tensors.size());
  view.node_count = static_cast<uint32_t>(nodes.size());
  view.input_count = static_cast<uint32_t>(parts.inputs.size());
  view.output_count = static_cast<uint32_t>(parts.outputs.size());
  view.alias_count = static_cast<uint32_t>(parts.aliases.size());
  view.name = parts.name.empty() ? nullptr : parts.name.c_str();
  identity = base::identity_of(view);
  std::copy(identity.begin(), identity.end(), view.identity);
  for (const uint32_t index : parts.inputs) bindings.push_back(parts.tensors[index].spec);
  for (const uint32_t index : parts.outputs) bindings.push_back(parts.tensors[index].spec);
}

const tn_fragment& Fragment::abi() const noexcept { return state_->view; }
const Identity& Fragment::identity() const noexcept { return state_->identity; }
const std::string& Fragment::name() const noexcept { return state_->parts.name; }
const std::vector<TensorSpec>& Fragment::bindings() const noexcept { return state_->bindings; }

}  // namespace tenon
