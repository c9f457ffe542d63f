// SPDX-License-Identifier: Apache-2.0
// movement.cpp: ops that compute nothing: elements go to other places.
#include "builder.hpp"
#include "tiles.hpp"

namespace tenon::cpu {

Status build_movement(Builder& builder, const tn_node& node, unsigned) {
  const FragmentView& fragment = builder.fragment();
  const TensorView from = fragment.tensor(node.inputs[0]), to = fragment.tensor(node.outputs[0]);
  View order(from);
  if (node.op == TN_OP_transpose) {
    std::array<uint32_t, TN_MAX_RANK> dims{};
    const auto given = *author::attribute_i64s(node, "order");
    for (size_t i = 0; i < given.size(); ++i) dims[i] = static_cast<uint32_t>(given[i]);
    order = View::permuted(from, {dims.data(), given.size()});
  }
  const Place source = builder.place(node.inputs[0]);
  builder.add(TN_TRY(copy_step(source, order, builder.output_place(node.outputs[0]), View(to))));
  return {};
}

}  // namespace tenon::cpu
