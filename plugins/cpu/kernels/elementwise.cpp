// SPDX-License-Identifier: Apache-2.0
// elementwise.cpp: a group of elementwise nodes as one pass over tiles (one per shape of output).
//
// Every value of a pass is computed at the shape of the pass's outputs; what is smaller is broadcast where it is read, so
// nothing between the nodes is ever written to memory. The elements of a pass are walked in the order in which its first
// output lies.
// Invariant: a value is rounded or wrapped to its dtype before another node reads it, as it would be in memory.
#include "builder.hpp"
#include "tiles.hpp"

#include <algorithm>
#include <numeric>

namespace tenon::cpu {
namespace {

using Value = TileBuilder::Value;

std::span<const int64_t> dims_of(const FragmentView& fragment, uint32_t tensor) {
  return fragment.tensor(tensor).dims();
}

// The dims as they lie in memory, outermost first.
std::vector<uint32_t> order_of(TensorView tensor) {
  std::vector<uint32_t> out(tensor.rank());
  std::iota(out.begin(), out.end(), 0u);
  std::stable_sort(out.begin(), out.end(),
                   [&](uint32_t a, uint32_t b) { return tensor.strides()[a] > tensor.strides()[b]; });
  return out;
}

// One pass: all results of one shape.
class Pass {
 public:
  Pass(Builder& builder, const Group& group, std::vector<uint32_t> results, bool may_alias)
      : builder_(builder),
        fragment_(builder.fragment()),
        group_(group),
        results_(std::move(results)),
        dims_(dims_of(fragment_, results_[0])),
        order_(order_of(fragment_.tensor(results_[0]))),
        may_alias_(may_alias),
        tiles_(fragment_.tensor(results_[0]).elements()),
        values_(fragment_.tensors().size(), TileBuilder::none),
        readers_(fragment_.tensors().size()) {}

  Status build() {
    find_needed();
    for (uint32_t n = group_.first; n < group_.end; ++n) {
      if (needed_[n - group_.first]) compute(fragment_.nodes()[n]);
    }
    builder_.add(TN_TRY(tiles_.finish()));
    return {};
  }

 private:
  // Marks what the results depend on, from the last node back, and counts who reads each tensor.
  void find_needed() {
    std::vector<bool> wanted(fragment_.tensors().size());
    for (const uint32_t tensor : results_) wanted[tensor] = true;
    needed_.assign(group_.end - group_.first, false);
    for (uint32_t n = group_.end; n-- > group_.first;) {
      const tn_node& node = fragment_.nodes()[n];
      if (!wanted[node.outputs[0]]) continue;
      needed_[n - group_.first] = true;
      for (uint32_t i = 0; i < node.input_count; ++i) {
        wanted[node.inputs[i]] = true;
        ++readers_[node.inputs[i]];
      }
    }
  }

  Value value_of(uint32_t tensor) {
    Value& value = values_[tensor];
    if (value == TileBuilder::none)
      value = tiles_.load(builder_.place(tensor), View(fragment_.tensor(tensor), dims_, order_));
    return value;
  }

  void compute(const tn_node& node) {
    const uint32_t tensor = node.outputs[0], dtype = fragment_.tensor(tensor).dtype();
    Value value = raw_value(node, dtype);
    // The store narrows too, so only other nodes need it done here.
    if (needs_narrowing(node.op) && !is_native(dtype) && readers_[tensor] > 0)
      value = tiles_.compute(narrowing_of(dtype), tiles_.reg(value), value);
    values_[tensor] = value;
    if (std::find(results_.begin(), results_.end(), tensor) == results_.end()) return;
    tiles_.store(value, builder_.output_place(tensor), View(fragment_.tensor(tensor), dims_, order_),
                 may_alias_);
  }

  Value raw_value(const tn_node& node, uint32_t dtype) {
    if (node.op == TN_OP_constant) {
      const Value exact = tiles_.constant(Reg::f64, author::attribute_f64(node, "value").value_or(0));
      return tiles_.compute(cast_of(Reg::f64, dtype), class_of(dtype), exact);
    }
    const Value a = value_of(node.inputs[0]);
    if (node.op == TN_OP_identity || node.op == TN_OP_broadcast_to) return a;
    if (node.op == TN_OP_cast) return tiles_.compute(cast_of(tiles_.reg(a), dtype), class_of(dtype), a);
    const Value b = node.input_count > 1 ? value_of(node.inputs[1]) : TileBuilder::none;
    const Value c = node.input_count > 2 ? value_of(node.inputs[2]) : TileBuilder::none;
    // `where` computes on what it selects; every other op on its first operand.
    const Reg reg = tiles_.reg(node.op == TN_OP_where ? b : a);
    const bool variant = author::attribute_i64(node, "tanh").value_or(0) != 0;
    const Immediate imm{.a = author::attribute_f64(node, "scale").value_or(1),
                        .b = author::attribute_f64(node, "bias").value_or(0)};
    return tiles_.compute(op_of(node.op, reg, variant), class_of(dtype), a, b, c, imm);
  }

  Builder& builder_;
  const FragmentView& fragment_;
  const Group& group_;
  std::vector<uint32_t> results_;
  std::span<const int64_t> dims_;
  std::vector<uint32_t> order_;
  bool may_alias_;
  TileBuilder tiles_;
  std::vector<Value> values_;
  std::vector<uint32_t> readers_;
  std::vector<bool> needed_;
};

}  // namespace

std::vector<uint32_t> results_of(const FragmentView& fragment, const Group& group) {
  std::vector<bool> wanted(fragment.tensors().size());
  for (const uint32_t i : fragment.outputs()) wanted[i] = true;
  for (uint32_t n = group.end; n < fragment.nodes().size(); ++n) {
    const tn_node& node = fragment.nodes()[n];
    for (uint32_t i = 0; i < node.input_count; ++i) {
      if (node.inputs[i] != TN_ABSENT) wanted[node.inputs[i]] = true;
    }
  }
  std::vector<uint32_t> results;
  for (uint32_t n = group.first; n < group.end; ++n) {
    const uint32_t tensor = fragment.nodes()[n].outputs[0];
    if (wanted[tensor]) results.push_back(tensor);
  }
  return results;
}

Status build_elementwise(Builder& builder, const Group& group) {
  const FragmentView& fragment = builder.fragment();
  std::vector<uint32_t> left = results_of(fragment, group);
  while (!left.empty()) {
    const auto dims = dims_of(fragment, left[0]);
    const auto other = std::stable_partition(left.begin(), left.end(), [&](uint32_t tensor) {
      return author::same_dims(dims_of(fragment, tensor), dims);
    });
    std::vector<uint32_t> now(left.begin(), other);
    left.erase(left.begin(), other);
    TN_TRY(Pass(builder, group, std::move(now), !fragment.aliases().empty()).build());
  }
  return {};
}

}  // namespace tenon::cpu
