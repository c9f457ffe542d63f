// SPDX-License-Identifier: Apache-2.0
// fragment_view.hpp: a tn_fragment as C++: ranges of tensors and nodes, attributes by name, strides and
// sizes.
//
// Views borrow: they live as long as the call that lent the fragment.
// Invariant: a view never changes what it sees, and asking for what is absent gives an empty optional, not an
// error.
#pragma once

#include <tenon/author/names.hpp>

#include <array>
#include <optional>
#include <span>
#include <string_view>

namespace tenon::author {

class TensorView {
 public:
  explicit TensorView(const tn_tensor& tensor) noexcept : tensor_(&tensor) {}

  uint32_t dtype() const noexcept { return tensor_->dtype; }
  std::string_view dtype_name() const noexcept { return author::dtype_name(tensor_->dtype); }
  uint32_t rank() const noexcept { return tensor_->rank; }
  std::span<const int64_t> dims() const noexcept { return {tensor_->dims, tensor_->rank}; }
  bool is_constant() const noexcept { return (tensor_->flags & TN_TENSOR_CONSTANT) != 0; }
  uint64_t elements() const noexcept {
    uint64_t count = 1;
    for (const int64_t dim : dims()) count *= static_cast<uint64_t>(dim);
    return count;
  }

  // Strides in elements, whether the tensor states them or is dense; entries past the rank are 0.
  std::array<int64_t, TN_MAX_RANK> strides() const noexcept {
    std::array<int64_t, TN_MAX_RANK> out{};
    int64_t step = 1;
    for (uint32_t i = rank(); i-- > 0;) {
      out[i] = tensor_->strides != nullptr ? tensor_->strides[i] : step;
      step *= tensor_->dims[i];
    }
    return out;
  }
  // Row-major without gaps; a dim of one element may have any stride.
  bool is_dense() const noexcept {
    if (tensor_->layout != 0) return false;
    int64_t step = 1;
    for (uint32_t i = rank(); tensor_->strides != nullptr && i-- > 0;) {
      if (tensor_->dims[i] != 1 && tensor_->strides[i] != step && elements() != 0) return false;
      step *= tensor_->dims[i];
    }
    return true;
  }
  // Bytes from the first element to the end of the last; what a binding of a strided tensor has to hold.
  uint64_t extent_bytes() const noexcept {
    if (elements() == 0) return 0;
    uint64_t last = 0;
    const auto steps = strides();
    for (uint32_t i = 0; i < rank(); ++i) last += static_cast<uint64_t>((tensor_->dims[i] - 1) * steps[i]);
    return dtype_bytes(tensor_->dtype, last + 1);
  }
  const tn_tensor& raw() const noexcept { return *tensor_; }

 private:
  const tn_tensor* tensor_;
};

inline bool same_dims(TensorView a, TensorView b) noexcept {
  if (a.rank() != b.rank()) return false;
  for (uint32_t i = 0; i < a.rank(); ++i) {
    if (a.dims()[i] != b.dims()[i]) return false;
  }
  return true;
}

// The attribute of a node with this name, or nullptr.
inline const tn_attribute* attribute(const tn_node& node, std::string_view name) noexcept {
  for (uint32_t i = 0; i < node.attribute_count; ++i) {
    if (node.attributes[i].name == name) return &node.attributes[i];
  }
  return nullptr;
}

// Typed look-ups; empty when the node has no such attribute or it is of another kind.
inline std::optional<int64_t> attribute_i64(const tn_node& node, std::string_view name) noexcept {
  const tn_attribute* found = attribute(node, name);
  if (found == nullptr || found->kind != TN_ATTRIBUTE_I64) return std::nullopt;
  return found->i64;
}
inline std::optional<double> attribute_f64(const tn_node& node, std::string_view name) noexcept {
  const tn_attribute* found = attribute(node, name);
  if (found == nullptr || found->kind != TN_ATTRIBUTE_F64) return std::nullopt;
  return found->f64;
}
inline std::optional<uint32_t> attribute_dtype(const tn_node& node, std::string_view name) noexcept {
  const tn_attribute* found = attribute(node, name);
  if (found == nullptr || found->kind != TN_ATTRIBUTE_DTYPE) return std::nullopt;
  return static_cast<uint32_t>(found->i64);
}
inline std::optional<std::string_view> attribute_string(const tn_node& node, std::string_view name) noexcept {
  const tn_attribute* found = attribute(node, name);
  if (found == nullptr || found->kind != TN_ATTRIBUTE_STRING) return std::nullopt;
  return std::string_view(static_cast<const char*>(found->data), found->count);
}
inline std::optional<std::span<const int64_t>> attribute_i64s(const tn_node& node,
                                                              std::string_view name) noexcept {
  const tn_attribute* found = attribute(node, name);
  if (found == nullptr || found->kind != TN_ATTRIBUTE_I64S) return std::nullopt;
  return std::span<const int64_t>(static_cast<const int64_t*>(found->data), found->count);
}
inline std::optional<std::span<const double>> attribute_f64s(const tn_node& node,
                                                             std::string_view name) noexcept {
  const tn_attribute* found = attribute(node, name);
  if (found == nullptr || found->kind != TN_ATTRIBUTE_F64S) return std::nullopt;
  return std::span<const double>(static_cast<const double*>(found->data), found->count);
}

class FragmentView {
 public:
  explicit FragmentView(const tn_fragment& fragment) noexcept : fragment_(&fragment) {}

  std::span<const tn_tensor> tensors() const noexcept {
    return {fragment_->tensors, fragment_->tensor_count};
  }
  std::span<const tn_node> nodes() const noexcept { return {fragment_->nodes, fragment_->node_count}; }
  std::span<const uint32_t> inputs() const noexcept { return {fragment_->inputs, fragment_->input_count}; }
  std::span<const uint32_t> outputs() const noexcept { return {fragment_->outputs, fragment_->output_count}; }
  std::span<const tn_alias> aliases() const noexcept { return {fragment_->aliases, fragment_->alias_count}; }
  std::string_view name() const noexcept { return fragment_->name != nullptr ? fragment_->name : "unnamed"; }

  TensorView tensor(uint32_t index) const noexcept { return TensorView(fragment_->tensors[index]); }
  TensorView input(uint32_t i) const noexcept { return tensor(fragment_->inputs[i]); }
  TensorView output(uint32_t i) const noexcept { return tensor(fragment_->outputs[i]); }
  // Bindings of a launch: inputs, then outputs.
  uint32_t binding_count() const noexcept { return fragment_->input_count + fragment_->output_count; }
  TensorView binding(uint32_t i) const noexcept {
    return i < fragment_->input_count ? input(i) : output(i - fragment_->input_count);
  }
  // The operand of a node, or nothing for an optional one left out.
  std::optional<TensorView> operand(const tn_node& node, uint32_t i) const noexcept {
    if (i >= node.input_count || node.inputs[i] == TN_ABSENT) return std::nullopt;
    return tensor(node.inputs[i]);
  }
  // The input whose span output `output` may share, or nothing.
  std::optional<uint32_t> alias_of(uint32_t output) const noexcept {
    for (const tn_alias& alias : aliases()) {
      if (alias.output == output) return alias.input;
    }
    return std::nullopt;
  }
  const tn_fragment& raw() const noexcept { return *fragment_; }

 private:
  const tn_fragment* fragment_;
};

}  // namespace tenon::author
