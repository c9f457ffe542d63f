// SPDX-License-Identifier: Apache-2.0
// forecast.cpp: what is known of a group's program before it is written.
//
// Invariant: an alias is honoured only where the program cannot tell; a pair that might be one is not.
#include "expression.hpp"
#include "families.hpp"
#include "lowered.hpp"
#include "schedule.hpp"

#include <algorithm>
#include <bitset>

namespace tenon::cuda {

namespace {

constexpr size_t most_tensors = 512;

uint64_t rounded_up(uint64_t bytes) { return (bytes + 255) / 256 * 256; }

// Whether everything made of `tensor` is made element by element, over the same dims: then all of it is one kernel, which
// reads an element where it writes that element. One op over rows may be among it, when `output` is made of its rows: whoever
// writes an element of them is the one who has read it, and sums are made before.
bool stays_in_place(const FragmentView& fragment, uint32_t tensor, uint32_t output) {
  if (fragment.tensors().size() > most_tensors) return false;
  std::bitset<most_tensors> made_of_it;
  made_of_it.set(tensor);
  bool rows = false;
  for (const tn_node& node : fragment.nodes()) {
    bool reads = false;
    for (uint32_t i = 0; i < node.input_count; ++i) {
      if (!made_of_it[node.inputs[i]]) continue;
      reads = true;
      if (node.outputs[0] == TN_ABSENT ||
          !author::same_dims(fragment.tensor(node.inputs[i]), fragment.tensor(node.outputs[0])))
        return false;
    }
    if (!reads) continue;
    const bool over_rows = is_over_rows(node.op);
    if (over_rows ? rows : !is_computed(node.op)) return false;
    rows = rows || over_rows;
    made_of_it.set(node.outputs[0]);
  }
  return !rows || made_of_it[output];
}

}  // namespace

bool same_places(TensorView a, TensorView b) {
  if (!author::same_dims(a, b) || a.dtype() != b.dtype()) return false;
  const auto x = a.strides(), y = b.strides();
  for (uint32_t i = 0; i < a.rank(); ++i) {
    if (a.dims()[i] > 1 && x[i] != y[i]) return false;
  }
  return true;
}

author::Honoured honoured_by_groups(const FragmentView& fragment) {
  return author::honoured_of(fragment.aliases(), [&](const tn_alias& pair) {
    return same_places(fragment.input(pair.input), fragment.output(pair.output)) &&
           stays_in_place(fragment, fragment.inputs()[pair.input], fragment.outputs()[pair.output]);
  });
}

uint64_t workspace_of_groups(const FragmentView& fragment, const Target& target) {
  uint64_t out = 0;
  for (const tn_node& node : fragment.nodes()) {
    if (!is_reduction(node.op)) continue;
    const TensorView made = fragment.tensor(node.outputs[0]);
    const uint64_t kept = std::max<uint64_t>(made.elements(), 1);
    const uint64_t folded = fragment.tensor(node.inputs[0]).elements() / kept;
    if (std::ranges::find(fragment.outputs(), node.outputs[0]) == fragment.outputs().end())
      out += rounded_up(author::dtype_bytes(made.dtype(), made.elements()));
    // A few thousand elements are one block's work; fewer blocks than the device holds share an output.
    const uint64_t blocks = std::max<uint64_t>(kept * std::min<uint64_t>(folded, 1024) / 1024, 1);
    const uint64_t wanted = uint64_t{target.multiprocessors} * 4,
                   slices = std::min(wanted / blocks, folded / 8192);
    if (slices > 1) out += rounded_up(slices * kept * 8);
  }
  return out;
}

}  // namespace tenon::cuda
