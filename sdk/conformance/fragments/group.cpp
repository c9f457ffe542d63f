// SPDX-License-Identifier: Apache-2.0
// group.cpp: groups as trials, as fragments and in words.
#include "conformance/fragments/group.hpp"

#include "conformance/ops/buffer.hpp"
#include "conformance/ops/kernel.hpp"
#include "conformance/random.hpp"
#include "conformance/words.hpp"

#include <algorithm>

namespace tenon::conform {

namespace {

bool holds(const std::vector<uint32_t>& list, uint32_t value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

Operand absent() {
  Operand out;
  out.absent = true;
  return out;
}

std::string list_of(const std::vector<uint32_t>& values) {
  std::string out;
  for (const uint32_t value : values) {
    out += out.empty() ? "" : ", ";
    out += value == TN_ABSENT ? "absent" : words("%", value);
  }
  return out;
}

std::string told_values(const Group& group, const std::vector<uint32_t>& values) {
  std::string out;
  for (const uint32_t value : values) {
    out += out.empty() ? "" : ", ";
    out += value == TN_ABSENT ? "absent" : words("%", value, " ", told(group.operand(value)));
  }
  return out;
}

// Inputs, constants and outputs that nothing needs any more are gone; aliases follow their ends.
void sweep(Group& group) {
  const std::vector<uint32_t> inputs = group.inputs, outputs = group.outputs;
  std::vector<bool> needed(group.values.size());
  for (const uint32_t value : outputs) needed[value] = true;
  std::vector<GroupNode> kept;
  for (size_t n = group.nodes.size(); n-- > 0;) {
    const GroupNode& node = group.nodes[n];
    const bool wanted = std::any_of(node.out.begin(), node.out.end(),
                                    [&](uint32_t v) { return v != TN_ABSENT && needed[v]; });
    if (!wanted) continue;
    for (const uint32_t value : node.in) {
      if (value != TN_ABSENT) needed[value] = true;
    }
    kept.insert(kept.begin(), node);
  }
  group.nodes = std::move(kept);
  std::erase_if(group.inputs, [&](uint32_t value) { return !group.is_read(value); });
  // What a node makes beside the wanted one must still go somewhere.
  for (const GroupNode& node : group.nodes) {
    for (const uint32_t value : node.out) {
      if (value != TN_ABSENT && !group.is_output(value) && !group.is_read(value))
        group.outputs.push_back(value);
    }
  }
  std::vector<tn_alias> aliases;
  for (const tn_alias& pair : group.aliases) {
    const auto input = std::find(group.inputs.begin(), group.inputs.end(), inputs[pair.input]);
    const auto output = std::find(group.outputs.begin(), group.outputs.end(), outputs[pair.output]);
    if (input == group.inputs.end() || output == group.outputs.end()) continue;
    aliases.push_back({.input = static_cast<uint32_t>(input - group.inputs.begin()),
                       .output = static_cast<uint32_t>(output - group.outputs.begin())});
  }
  group.aliases = std::move(aliases);
}

}  // namespace

Operand dense(Operand operand) {
  operand.strides.clear();
  operand.skew = operand.alignment = 0;
  return operand;
}

bool Group::is_input(uint32_t value) const noexcept { return holds(inputs, value); }
bool Group::is_output(uint32_t value) const noexcept { return holds(outputs, value); }
bool Group::is_read(uint32_t value) const noexcept {
  return std::any_of(nodes.begin(), nodes.end(),
                     [&](const GroupNode& node) { return holds(node.in, value); });
}

uint64_t Group::inner_bytes() const {
  uint64_t out = 0;
  for (uint32_t value = 0; value < values.size(); ++value) {
    if (is_inner(value) && is_read(value))
      out += element_count(operand(value).dims) * element_bytes(operand(value).dtype);
  }
  return out;
}

Trial trial_of(const Group& group, size_t node) {
  const GroupNode& of = group.nodes[node];
  Trial out{.row = of.row, .subject = of.subject};
  out.attributes = of.attributes;
  out.value_seed = group.value_seed;
  for (const uint32_t value : of.in) {
    out.inputs.push_back(value == TN_ABSENT      ? absent()
                         : group.is_input(value) ? group.operand(value)
                                                 : dense(group.operand(value)));
  }
  for (const uint32_t value : of.out)
    out.outputs.push_back(value == TN_ABSENT ? absent() : dense(group.operand(value)));
  return out;
}

Tensor numbers_of(const Group& group, uint32_t value) {
  const Operand& operand = group.operand(value);
  const Operand lies = group.values[value].constant ? dense(operand) : operand;
  return values_of(lies, mix(group.value_seed + value), group.specials);
}

std::optional<Group> cut(const Group& group, const Cut& by) {
  Group out = group;
  if (by.at >= group.nodes.size()) return {};
  if (by.kind == Cut::Kind::result) {
    out.aliases.clear();
    out.outputs.clear();
    for (const uint32_t value : group.nodes[by.at].out) {
      if (value != TN_ABSENT) out.outputs.push_back(value);
    }
    sweep(out);
    const bool less = out.nodes.size() < group.nodes.size() || out.outputs.size() < group.outputs.size();
    return less ? std::optional(std::move(out)) : std::nullopt;
  }
  if (group.nodes.size() < 2) return {};
  const std::vector<uint32_t> made = group.nodes[by.at].out;
  out.aliases.clear();
  out.nodes.erase(out.nodes.begin() + static_cast<std::ptrdiff_t>(by.at));
  for (const uint32_t value : made) {
    if (value == TN_ABSENT) continue;
    std::erase(out.outputs, value);
    Operand& operand = out.values[value].operand;
    operand.values = author::is_float(operand.dtype) ? Values::tame : Values::any;
    out.inputs.push_back(value);
  }
  sweep(out);
  return out.nodes.empty() || out.outputs.empty() ? std::nullopt : std::optional(std::move(out));
}

std::string told(const Group& group) {
  std::string out = told_values(group, group.inputs);
  for (uint32_t value = 0; value < group.values.size(); ++value) {
    if (group.values[value].constant && group.is_read(value))
      out += words("; %", value, " constant ", told(group.operand(value)));
  }
  for (const GroupNode& node : group.nodes) {
    out += words("; ", told_values(group, node.out), " = ", node.row->name, "(", list_of(node.in), ")");
    for (const AttributeValue& one : node.attributes) out += " " + told(one);
  }
  out += words("; gives ", list_of(group.outputs));
  for (const tn_alias& pair : group.aliases)
    out += words("; %", group.outputs[pair.output], " in place of %", group.inputs[pair.input]);
  return out;
}

WholeGroup::WholeGroup(const Group& group)
    : builder_(words(group.nodes.front().row->name, " and ", group.nodes.size() - 1, " more")),
      tensor_(group.values.size(), TN_ABSENT) {
  for (const uint32_t value : group.inputs) {
    const Operand& o = group.operand(value);
    tensor_[value] = builder_.input(o.dtype, o.dims, o.strides);
  }
  for (const uint32_t value : group.outputs) {
    const Operand& o = group.operand(value);
    tensor_[value] = builder_.output(o.dtype, o.dims, o.strides);
  }
  const auto tensor = [&](uint32_t value) {
    if (value == TN_ABSENT || tensor_[value] != TN_ABSENT) return value == TN_ABSENT ? value : tensor_[value];
    const Operand o = dense(group.operand(value));
    if (!group.values[value].constant) return tensor_[value] = builder_.tensor(o.dtype, o.dims);
    return tensor_[value] = builder_.constant(
               o.dtype, o.dims, image_of(o, places(o.dims, dense_strides(o.dims)), numbers_of(group, value)));
  };
  for (const GroupNode& node : group.nodes) {
    std::vector<uint32_t> in, out;
    for (const uint32_t value : node.in) in.push_back(tensor(value));
    for (const uint32_t value : node.out) out.push_back(tensor(value));
    while (!in.empty() && in.back() == TN_ABSENT) in.pop_back();
    write_attributes(builder_.node(node.row->op, in, out), node.attributes);
  }
  for (const tn_alias& pair : group.aliases) builder_.alias(pair.input, pair.output);
  fragment_ = builder_.fragment();
  tensors_.assign(fragment_.tensors, fragment_.tensors + fragment_.tensor_count);
  nodes_.assign(fragment_.nodes, fragment_.nodes + fragment_.node_count);
  fragment_.tensors = tensors_.data();
  fragment_.nodes = nodes_.data();
  for (const auto* bound : {&group.inputs, &group.outputs}) {
    for (const uint32_t value : *bound) raw_tensor(value).alignment = group.operand(value).alignment;
  }
  set_identity(fragment_);
}

}  // namespace tenon::conform
