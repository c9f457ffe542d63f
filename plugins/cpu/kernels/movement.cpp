// SPDX-License-Identifier: Apache-2.0
// movement.cpp: ops that compute nothing: elements go to other places.
//
// Each is copies between two orders of elements: what is joined, cut out or surrounded is a part of a tensor, which is a
// view of it that starts elsewhere.
// Invariant: every element of the result is written by exactly one step.
#include "builder.hpp"
#include "tiles.hpp"

#include <tenon/author/node_view.hpp>

namespace tenon::cpu {

namespace {

using author::DimList;

// A part of a tensor: where it starts, in elements, and how its elements follow.
struct Part {
  View view;
  int64_t start = 0;
};

// `dims` elements from `begin` on, every `step`th.
Part part_of(TensorView tensor, std::span<const int64_t> begin, std::span<const int64_t> dims,
             std::span<const int64_t> step) {
  Part out;
  auto strides = tensor.strides();
  for (size_t i = 0; i < dims.size(); ++i) {
    out.start += begin[i] * strides[i];
    strides[i] =
        dims[i] > 1 ? strides[i] * step[i] : 0;  // a step may be as large as it likes where none is made
  }
  out.view = View(tensor.dtype(), dims, std::span(strides).first(dims.size()));
  return out;
}

class Movement {
 public:
  Movement(Builder& builder, const tn_node& node)
      : builder_(builder),
        node_(node),
        from_(builder.fragment().tensor(node.inputs[0])),
        to_(builder.fragment().tensor(node.outputs[0])),
        result_(builder.output_place(node.outputs[0])) {}

  // The elements of input 0 in the order of `view`.
  Status reorder(const View& view) { return copy(builder_.place(node_.inputs[0]), view, result_, View(to_)); }

  Status transpose() {
    std::array<uint32_t, TN_MAX_RANK> dims{};
    const std::span<const int64_t> order = integers("order");
    for (size_t i = 0; i < order.size(); ++i) dims[i] = static_cast<uint32_t>(order[i]);
    return reorder(View::permuted(from_, {dims.data(), order.size()}));
  }

  Status concat() {
    const int64_t given = *author::attribute_i64(node_, "axis");
    const auto axis = static_cast<size_t>(given < 0 ? given + to_.rank() : given);
    const DimList ones = DimList::ones(to_.rank());
    DimList begin = ones;
    for (size_t i = 0; i < begin.size(); ++i) begin[i] = 0;
    for (uint32_t n = 0; n < node_.input_count; ++n) {
      const TensorView one = builder_.fragment().tensor(node_.inputs[n]);
      const Part part = part_of(to_, begin, one.dims(), ones);
      TN_TRY(copy(builder_.place(node_.inputs[n]), View(one), moved(result_, part), part.view));
      begin[axis] += one.dims()[axis];
    }
    return {};
  }

  Status slice() {
    const Part part = part_of(from_, integers("begin"), to_.dims(), integers("step"));
    return copy(moved(builder_.place(node_.inputs[0]), part), part.view, result_, View(to_));
  }

  // The border in slabs: along each dim what lies before and behind, as wide as the dims before it leave room for.
  Status pad() {
    const std::span<const int64_t> before = integers("before"), after = integers("after");
    const DimList ones = DimList::ones(to_.rank());
    DimList begin = ones, dims(to_.dims());
    for (size_t i = 0; i < begin.size(); ++i) begin[i] = 0;
    for (size_t i = 0; i < dims.size(); ++i) {
      dims[i] = before[i];
      TN_TRY(fill(part_of(to_, begin, dims, ones)));
      begin[i] = before[i] + from_.dims()[i];
      dims[i] = after[i];
      TN_TRY(fill(part_of(to_, begin, dims, ones)));
      begin[i] = before[i];
      dims[i] = from_.dims()[i];
    }
    const Part inner = part_of(to_, begin, dims, ones);
    return copy(builder_.place(node_.inputs[0]), View(from_), moved(result_, inner), inner.view);
  }

 private:
  std::span<const int64_t> integers(std::string_view name) const {
    return *author::attribute_i64s(node_, name);
  }

  // The place where a part starts; a part without elements starts nowhere, and nothing is asked of it.
  Place moved(const Place& place, const Part& part) const {
    return place.plus(static_cast<uint64_t>(part.start) * part.view.element_bytes());
  }

  Status copy(const Place& from, const View& from_view, const Place& to, const View& to_view) {
    if (to_view.count() == 0) return {};
    builder_.add(TN_TRY(copy_step(from, from_view, to, to_view)));
    return {};
  }

  Status fill(const Part& part) {
    if (part.view.count() == 0) return {};
    TileBuilder tiles(part.view.count());
    const auto exact = tiles.constant(Reg::f64, *author::attribute_f64(node_, "value"));
    const uint32_t dtype = to_.dtype();
    const auto value = tiles.compute(cast_of(Reg::f64, dtype), class_of(dtype), exact);
    tiles.store(value, moved(result_, part), part.view, false);
    builder_.add(TN_TRY(tiles.finish()));
    return {};
  }

  Builder& builder_;
  const tn_node& node_;
  TensorView from_, to_;
  Place result_;
};

}  // namespace

Status build_movement(Builder& builder, const tn_node& node, unsigned) {
  Movement movement(builder, node);
  switch (node.op) {
    case TN_OP_transpose:
      return movement.transpose();
    case TN_OP_concat:
      return movement.concat();
    case TN_OP_slice:
      return movement.slice();
    case TN_OP_pad:
      return movement.pad();
    default:
      return movement.reorder(View(builder.fragment().tensor(node.inputs[0])));
  }
}

}  // namespace tenon::cpu
