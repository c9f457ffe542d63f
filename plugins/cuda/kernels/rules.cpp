// SPDX-License-Identifier: Apache-2.0
// rules.cpp: which fragments are taken: what holds for all of them, and then what their family says. What ops.def forbids is the
// author framework's to say.
//
// A refusal names the node, its values and, where there is one, the way out. Nothing is allocated until something is wrong.
#include "families.hpp"

#include <tenon/author/op_rules.hpp>

namespace tenon::cuda {

using author::TensorView;
using author::text;

namespace {

constexpr uint64_t most_constant_bytes = 64 << 10;
constexpr uint64_t most_elements = uint64_t{1} << 38;

Status check_limits(const FragmentView& fragment, const Family& family) {
  if (fragment.nodes().size() > family.most_nodes) {
    return Status(TN_UNSUPPORTED, text("the fragment has ", fragment.nodes().size(), " nodes; at most ",
                                       family.most_nodes, " become one program: cut it"));
  }
  if (fragment.binding_count() > family.most_bindings) {
    return Status(TN_UNSUPPORTED, text("the fragment has ", fragment.binding_count(),
                                       " bindings; one program takes ", family.most_bindings, ": cut it"));
  }
  return {};
}

Status check_tensor(const FragmentView& fragment, uint32_t index) {
  const TensorView tensor = fragment.tensor(index);
  if (tensor.raw().layout != 0) {
    return Status(TN_UNSUPPORTED, text("tensor ", index, " has private layout ", tensor.raw().layout,
                                       "; this device has none: give it strides"));
  }
  if (tensor.elements() > most_elements || tensor.extent_bytes() > most_elements * 8) {
    return Status(TN_UNSUPPORTED, text("tensor ", index, " has ", tensor.elements(), " elements over ",
                                       tensor.extent_bytes(), " bytes; one launch reaches ", most_elements));
  }
  const uint64_t bytes = author::dtype_bytes(tensor.dtype(), tensor.elements());
  if (!tensor.is_constant() || bytes <= most_constant_bytes) return {};
  return Status(TN_UNSUPPORTED,
                text("constant tensor ", index, " has ", bytes, " bytes; a source holds at most ",
                     most_constant_bytes, ": bind it as an input"));
}

}  // namespace

Status check_tensors(const FragmentView& fragment) {
  for (uint32_t i = 0; i < fragment.tensors().size(); ++i) TN_TRY(check_tensor(fragment, i));
  return author::check_rules(fragment);
}

Status check_fragment(const FragmentView& fragment) {
  const Family& family = family_of(fragment);
  TN_TRY(check_limits(fragment, family));
  TN_TRY(check_tensors(fragment));
  return family.check(fragment);
}

}  // namespace tenon::cuda
