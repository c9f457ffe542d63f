// SPDX-License-Identifier: Apache-2.0
// aliases.cpp: three ways to be honoured: the fragment is one elementwise pass; the node that makes the output may work in
// place and is the last to look at the input; or the step of several nodes that makes it says so. Nodes that a kernel took
// in after itself work in place where the kernel may.
#include "aliases.hpp"

#include "families.hpp"
#include "fused.hpp"

#include <algorithm>
#include <functional>

namespace tenon::cpu {

namespace {

bool names(const uint32_t* list, uint32_t count, uint32_t tensor) {
  return std::find(list, list + count, tensor) != list + count;
}

// One pass writes every output: none has another shape, is listed twice, or is an input handed through.
bool is_one_pass(const FragmentView& fragment, const std::vector<Group>& groups) {
  if (groups.size() != 1 || !groups[0].family->fuses()) return false;
  const std::vector<uint32_t> results = results_of(fragment, groups[0]);
  if (results.size() != fragment.outputs().size()) return false;
  return std::all_of(results.begin(), results.end(), [&](uint32_t tensor) {
    return author::same_dims(fragment.tensor(tensor), fragment.output(0));
  });
}

// Each element is read where it is written, before it is.
bool is_in_place_in_pass(const FragmentView& fragment, const tn_alias& pair) {
  const TensorView in = fragment.input(pair.input), out = fragment.output(pair.output);
  return in.rank() <= out.rank() && View(in, out.dims()).same_places(View(out));
}

// A node that makes an output, and the nodes whose values it reads without their going through memory.
struct Writer {
  uint32_t first, node;
};

// The node whose step writes what `maker` makes: itself, or the kernel that took it in.
Writer writer_of(const FragmentView& fragment, const std::vector<Group>& groups, uint32_t maker) {
  for (const Group& group : groups) {
    if (group.family->takes == nullptr || maker < group.first || maker >= group.end) continue;
    const uint32_t kernel = kernel_of(fragment, group.first);
    return kernel <= maker ? Writer{group.first, kernel} : Writer{maker, maker};
  }
  return {maker, maker};
}

// What nodes [first, end) make of a tensor.
std::vector<uint32_t> made_of(const FragmentView& fragment, uint32_t tensor, uint32_t first, uint32_t end) {
  std::vector<uint32_t> out, of = {tensor};
  for (const tn_node& node : fragment.nodes().subspan(first, end - first)) {
    if (std::ranges::none_of(of, [&](uint32_t one) { return names(node.inputs, node.input_count, one); }))
      continue;
    of.insert(of.end(), node.outputs, node.outputs + node.output_count);
    out.insert(out.end(), node.outputs, node.outputs + node.output_count);
  }
  return out;
}

// Whether the writer makes its node's output `at` from `in`, wherever it reads it, and is allowed to in place. Where only nodes that it
// took in read it, it reads what they make of it, element by element.
bool works_in_place(const FragmentView& fragment, const Writer& writer, uint32_t in, uint32_t at) {
  const tn_node& node = fragment.nodes()[writer.node];
  const Family& family = *family_of(node.op);
  if (family.in_place == nullptr) return false;
  std::vector<uint32_t> read = {in};
  if (!names(node.inputs, node.input_count, in)) read = made_of(fragment, in, writer.first, writer.node);
  bool reads = false;
  for (uint32_t i = 0; i < node.input_count; ++i) {
    if (std::ranges::find(read, node.inputs[i]) == read.end()) continue;
    if (!family.in_place(node, i, at)) return false;
    reads = true;
  }
  return reads;
}

// Whether the node runs in a step that reads and writes in an order of its own.
bool is_taken_along(const std::vector<Group>& groups, uint32_t at) {
  return std::any_of(groups.begin(), groups.end(), [&](const Group& group) {
    const bool together = group.family == &pass_family() || group.family == &panel_family();
    return together && at >= group.first && at < group.end;
  });
}

bool is_in_place_in_node(const FragmentView& fragment, const std::vector<Group>& groups,
                         const tn_alias& pair) {
  const uint32_t in = fragment.inputs()[pair.input], out = fragment.outputs()[pair.output];
  const auto outputs = fragment.outputs();
  // Copies to a second listing of an output, and of an input handed through, are made after all nodes.
  if (std::count(outputs.begin(), outputs.end(), out) != 1 ||
      std::count(outputs.begin(), outputs.end(), in) != 0)
    return false;
  if (!View(fragment.tensor(in)).same_places(View(fragment.tensor(out)))) return false;
  const auto nodes = fragment.nodes();
  const auto maker = std::find_if(nodes.begin(), nodes.end(), [&](const tn_node& node) {
    return names(node.outputs, node.output_count, out);
  });
  if (maker == nodes.end()) return false;
  const auto made_by = static_cast<uint32_t>(maker - nodes.begin());
  if (is_taken_along(groups, made_by)) return false;
  const Writer writer = writer_of(fragment, groups, made_by);
  const uint32_t* const first = maker->outputs;
  // What was taken in after the kernel makes its results of the kernel's first.
  const auto at = writer.node == made_by
                      ? static_cast<uint32_t>(std::find(first, first + maker->output_count, out) - first)
                      : 0u;
  if (!works_in_place(fragment, writer, in, at)) return false;
  return std::none_of(nodes.begin() + writer.node + 1, nodes.end(),
                      [&](const tn_node& node) { return names(node.inputs, node.input_count, in); });
}

}  // namespace

author::Honoured honoured_aliases(const FragmentView& fragment, const std::vector<Group>& groups) {
  if (fragment.aliases().empty()) return {};
  const bool one_pass = is_one_pass(fragment, groups);
  author::Honoured out = author::honoured_of(fragment.aliases(), [&](const tn_alias& pair) {
    return one_pass ? is_in_place_in_pass(fragment, pair) : is_in_place_in_node(fragment, groups, pair);
  });
  for (const Group& group : groups) {
    if (group.family->honoured == nullptr) continue;
    const author::Honoured more = group.family->honoured(fragment, group.first, group.end);
    std::transform(more.begin(), more.end(), out.begin(), out.begin(), std::logical_or());
  }
  return out;
}

}  // namespace tenon::cpu
