// SPDX-License-Identifier: Apache-2.0
// builder.cpp: places of tensors, and the cut of a fragment into groups.
//
// Invariant: workspace pieces are 64-byte aligned and never shared between two tensors of one run.
#include "builder.hpp"

#include "chain_nodes.hpp"
#include "depthwise.hpp"
#include "epilogue.hpp"
#include "families.hpp"
#include "panels.hpp"
#include "pass.hpp"
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

Builder::Builder(const tn_fragment& fragment, const Tuning& tuning)
    : given_(fragment),
      tensors_(own_tensors(fragment)),
      raw_(with_tensors(fragment, tensors_)),
      fragment_(raw_),
      places_(fragment.tensor_count),
      tuning_(tuning) {
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

std::vector<std::unique_ptr<Step>> Builder::take_steps_from(size_t count) {
  std::vector<std::unique_ptr<Step>> out;
  for (size_t i = count; i < steps_.size(); ++i) out.push_back(std::move(steps_[i]));
  steps_.resize(count);
  return out;
}

namespace {

// Whether a kernel may take nodes of the group in after itself.
bool gives(const FragmentView& fragment, const Group& group) {
  return group.family->fuses() || is_chained(fragment.nodes()[group.first].op);
}

// The group of node `at`. What it takes of the groups before it, these lose; what another kernel took, that one keeps.
Group group_around(const FragmentView& fragment, std::vector<Group>& groups, uint32_t at,
                   const Family* family) {
  Nodes nodes = family->takes(fragment, at);
  uint32_t least = at;
  for (size_t i = groups.size(); i-- > 0 && gives(fragment, groups[i]);) least = groups[i].first;
  if (nodes.first < least && family->takes == conv_nodes) nodes = product_nodes(fragment, at);
  nodes.first = std::max(nodes.first, least);
  while (!groups.empty() && groups.back().first >= nodes.first) groups.pop_back();
  if (!groups.empty()) groups.back().end = std::min(groups.back().end, nodes.first);
  return {nodes.first, nodes.end, family};
}

// Whether the node of `family` belongs to the group before it.
bool continues(const std::vector<Group>& groups, const Family* family) {
  if (groups.empty() || family->takes != nullptr) return false;
  const Family* const before = groups.back().family;
  return family->build_all != nullptr ? before->build_all == family->build_all
                                      : family->fuses() && before == family;
}

bool may_pass(const FragmentView& fragment, const Group& group) {
  return group.family->takes == nullptr && passes(fragment.nodes()[group.first].op);
}

// Neighbours that are one pass, each run of them as far as it goes.
void join_passes(const FragmentView& fragment, std::vector<Group>& groups) {
  std::vector<Group> out;
  for (size_t i = 0; i < groups.size();) {
    size_t end = i;
    while (end < groups.size() && may_pass(fragment, groups[end])) ++end;
    const Nodes nodes{groups[i].first, groups[std::max(end, i + 1) - 1].end};
    const bool one = end - i > 1 && pass_of(fragment, nodes).ok();
    if (one) out.push_back({nodes.first, nodes.end, &pass_family()});
    for (end = std::max(end, i + 1); i < end; ++i) {
      if (!one) out.push_back(groups[i]);
    }
  }
  groups = std::move(out);
}

bool is_product(const FragmentView& fragment, const Group& group) {
  return fragment.nodes()[group.first].op == TN_OP_matmul && group.family->takes != nullptr;
}

// Products with what uses them up at once.
void join_panels(const FragmentView& fragment, std::vector<Group>& groups) {
  for (size_t i = 0; i + 1 < groups.size(); ++i) {
    if (!is_product(fragment, groups[i])) continue;
    const Nodes product{groups[i].first, groups[i].end};
    if (!why_no_panels(fragment, product, groups[i + 1]).empty()) continue;
    groups[i] = {product.first, groups[i + 1].end, &panel_family()};
    groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(i) + 1);
  }
}

}  // namespace

std::vector<Group> groups_of(const FragmentView& fragment, const Nodes& nodes) {
  std::vector<Group> groups;
  for (uint32_t i = nodes.first; i < nodes.end; ++i) {
    const Family* const family = family_of(fragment.nodes()[i].op);
    if (continues(groups, family)) {
      ++groups.back().end;
      continue;
    }
    groups.push_back(family->takes != nullptr ? group_around(fragment, groups, i, family)
                                              : Group{i, i + 1, family});
    i = groups.back().end - 1;
  }
  join_passes(fragment, groups);
  return groups;
}

std::vector<Group> groups_of(const FragmentView& fragment) {
  std::vector<Group> groups = groups_of(fragment, {0, static_cast<uint32_t>(fragment.nodes().size())});
  join_panels(fragment, groups);
  return groups;
}

std::string why_apart(const FragmentView& fragment, const std::vector<Group>& groups, size_t i) {
  if (i == 0) return "";
  const Group &before = groups[i - 1], &group = groups[i];
  if (is_product(fragment, before)) return why_no_panels(fragment, {before.first, before.end}, group);
  const uint32_t last = fragment.nodes()[group.first - 1].op, next = fragment.nodes()[group.first].op;
  if (last == TN_OP_relu && next == TN_OP_conv2d) return why_no_depthwise(fragment, group.first);
  if (last == TN_OP_conv2d_grad_data && next == TN_OP_relu_grad)
    return why_no_depthwise(fragment, group.first - 1);
  size_t first = i, end = i;
  while (first > 0 && may_pass(fragment, groups[first - 1])) --first;
  while (end < groups.size() && may_pass(fragment, groups[end])) ++end;
  if (end - first < 2 || end == i) return "";
  auto form = pass_of(fragment, {groups[first].first, groups[end - 1].end});
  return form.ok() ? "" : std::string(form.message());
}

}  // namespace tenon::cpu
