// SPDX-License-Identifier: Apache-2.0
// node.cpp: copying attributes, and the list of families.
#include "node.hpp"

namespace tenon::sim {

namespace {

Value value_of(const tn_attribute& a) {
  Value out{.integer = a.i64, .real = a.f64};
  if (a.count == 0 || a.data == nullptr) return out;
  if (a.kind == TN_ATTRIBUTE_I64S) {
    const auto* const first = static_cast<const int64_t*>(a.data);
    out.integers.assign(first, first + a.count);
  } else if (a.kind == TN_ATTRIBUTE_STRING) {
    out.text.assign(static_cast<const char*>(a.data), a.count);
  }
  return out;
}

}  // namespace

Node::Node(const tn_node& node)
    : op(node.op),
      in(node.inputs, node.inputs + node.input_count),
      out(node.outputs, node.outputs + node.output_count) {
  for (uint32_t i = 0; i < node.attribute_count; ++i)
    attributes.emplace(node.attributes[i].name, value_of(node.attributes[i]));
}

Routine routine_of(uint32_t op) {
  for (const auto family : {elementwise, reduction, product, window, normalisation, softmax, attention,
                            indexing, random, movement, update}) {
    if (const Routine found = family(op)) return found;
  }
  return nullptr;
}

}  // namespace tenon::sim
