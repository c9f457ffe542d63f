// SPDX-License-Identifier: Apache-2.0
// builder.cpp: places of tensors, and the cut of a fragment into groups.
//
// Invariant: workspace pieces are 64-byte aligned and never shared between two tensors of one run.
#include "builder.hpp"

#include "families.hpp"
#include "tiles.hpp"

#include <algorithm>

namespace tenon::cpu {
namespace {

constexpr uint64_t piece_alignment = 64;

// The fragment's tensors, dense unless a binding decides how they lie.
std::vector<tn_tensor> own_tensors(const tn_fragment& fragment) {
  std::vector<tn_tensor> tensors(fragment.tensors, fragment.tensors + fragment.tensor_count);
  std::vector<bool> bound(tensors.size());
  for (uint32_t i = 0; i < fragment.input_count; ++i) bound[fragment.inputs[i]] = true;
  for (uint32_t i = 0; i < fragment.output_count; ++i) bound[fragment.outputs[i]] = true;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const bool constant = (tensors[i].flags & TN_TENSOR_CONSTANT) != 0;
    if (!bound[i] || constant) tensors[i].strides = nullptr;
  }
  return tensors;
}

tn_fragment with_tensors(const tn_fragment& fragment, const std::vector<tn_tensor>& tensors) {
  tn_fragment out = fragment;
  out.tensors = tensors.data();
  return out;
}

}  // namespace

Builder::Builder(const tn_fragment& fragment)
    : given_(fragment),
      tensors_(own_tensors(fragment)),
      raw_(with_tensors(fragment, tensors_)),
      fragment_(raw_),
      places_(fragment.tensor_count) {
  for (uint32_t i = 0; i < fragment.tensor_count; ++i) {
    const tn_tensor& tensor = fragment.tensors[i];
    if ((tensor.flags & TN_TENSOR_CONSTANT) == 0) continue;
    const uint64_t bytes = std::max<uint64_t>(tensor.constant_bytes, 1);
    auto& copy = constants_.emplace_back(std::make_unique<std::byte[]>(bytes));
    if (tensor.constant_bytes > 0) std::memcpy(copy.get(), tensor.constant, tensor.constant_bytes);
    places_[i] = Place::of_constant(copy.get());
  }
  for (uint32_t i = 0; i < fragment.input_count; ++i) {
    Place& place = places_[fragment.inputs[i]];
    if (place.kind != Place::Kind::constant) place = Place::at_binding(i);
  }
}

Place Builder::constant(std::unique_ptr<std::byte[]> bytes) {
  return Place::of_constant(constants_.emplace_back(std::move(bytes)).get());
}

Place Builder::scratch(uint64_t bytes) {
  const Place place = Place::in_workspace(workspace_);
  workspace_ += (bytes + piece_alignment - 1) / piece_alignment * piece_alignment;
  return place;
}

Place Builder::output_place(uint32_t tensor) {
  if (tensor == TN_ABSENT) return {};
  const auto outputs = fragment_.outputs();
  for (uint32_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i] == tensor) return places_[tensor] = Place::at_binding(raw_.input_count + i);
  }
  return places_[tensor] = scratch(fragment_.tensor(tensor).extent_bytes());
}

Status Builder::copy_the_rest() {
  for (uint32_t i = 0; i < raw_.output_count; ++i) {
    const Place own = Place::at_binding(raw_.input_count + i);
    const uint32_t tensor = raw_.outputs[i];
    if (places_[tensor] == own) continue;
    const View from(fragment_.tensor(tensor)), to(TensorView(given_.tensors[tensor]));
    add(TN_TRY(copy_step(places_[tensor], from, own, to)));
  }
  return {};
}

namespace {

// The group of node `at`. What it takes of the elementwise group before it, that one loses; what another kernel took, that
// one keeps.
Group group_around(const FragmentView& fragment, std::vector<Group>& groups, uint32_t at,
                   const Family* family) {
  Nodes nodes = family->takes(fragment, at);
  const bool free = !groups.empty() && groups.back().family->fuses();
  nodes.first = std::max(nodes.first, free ? groups.back().first : at);
  if (free) {
    groups.back().end = nodes.first;
    if (groups.back().first == nodes.first) groups.pop_back();
  }
  return {nodes.first, nodes.end, family};
}

// Whether the node of `family` belongs to the group before it.
bool continues(const std::vector<Group>& groups, const Family* family) {
  if (groups.empty() || family->takes != nullptr) return false;
  const Family* const before = groups.back().family;
  return family->build_all != nullptr ? before->build_all == family->build_all
                                      : family->fuses() && before == family;
}

}  // namespace

std::vector<Group> groups_of(const FragmentView& fragment) {
  std::vector<Group> groups;
  for (uint32_t i = 0; i < fragment.nodes().size(); ++i) {
    const Family* const family = family_of(fragment.nodes()[i].op);
    if (continues(groups, family)) {
      ++groups.back().end;
      continue;
    }
    groups.push_back(family->takes != nullptr ? group_around(fragment, groups, i, family)
                                              : Group{i, i + 1, family});
    i = groups.back().end - 1;
  }
  return groups;
}

}  // namespace tenon::cpu
