// SPDX-License-Identifier: Apache-2.0
// chain_nodes.cpp: ops and their attributes as actions of a chain.
#include "chain_nodes.hpp"

#include "families.hpp"

namespace tenon::cpu {

using Value = Chain::Value;

namespace {

// The number that a node's attribute says, as its dtype holds it.
double held(double number, uint32_t dtype) {
  double wide = number;
  alignas(8) std::byte narrow[8] = {};
  cast_op(Reg::f64, dtype)(narrow, &wide, nullptr, nullptr, 1, {});
  if (class_of(dtype) == Reg::f32) {
    float out;
    std::memcpy(&out, narrow, sizeof out);
    return static_cast<double>(out);
  }
  std::memcpy(&wide, narrow, sizeof wide);
  return wide;
}

Value raw_value(const Builder& builder, Chain& chain, Reg reg, const tn_node& node,
                const Value (&operands)[3]) {
  if (node.op == TN_OP_dropout) return chain.thin(draw_of(builder, node), operands[0]);
  const bool variant = author::attribute_i64(node, "tanh").value_or(0) != 0;
  const Immediate imm{.a = author::attribute_f64(node, "scale").value_or(1),
                      .b = author::attribute_f64(node, "bias").value_or(0)};
  return chain.compute(op_of(node.op, reg, variant), imm, operands[0], operands[1], operands[2]);
}

}  // namespace

bool is_chained(uint32_t op) noexcept { return family_of(op)->fuses() || op == TN_OP_dropout; }

uint32_t operand_count(const tn_node& node) noexcept {
  return node.op == TN_OP_dropout ? 1 : node.input_count;
}

Value chain_node(const Builder& builder, Chain& chain, Reg reg, const tn_node& node,
                 const Value (&operands)[3]) {
  const uint32_t dtype = builder.fragment().tensor(node.outputs[0]).dtype();
  switch (node.op) {
    case TN_OP_identity:
    case TN_OP_broadcast_to:
      return operands[0];
    case TN_OP_cast:
      return chain.compute(cast_of(reg, dtype), {}, operands[0]);
    case TN_OP_constant: {
      const double number = held(author::attribute_f64(node, "value").value_or(0), dtype);
      return chain.compute({.kind = TileOp::Kind::fill, .reg = reg}, {.a = number}, Chain::none);
    }
    default:
      break;
  }
  const Value value = raw_value(builder, chain, reg, node, operands);
  const bool narrows = needs_narrowing(node.op) && narrowing(dtype) != nullptr;
  return narrows ? chain.compute(narrowing_of(dtype), {}, value) : value;
}

}  // namespace tenon::cpu
