// SPDX-License-Identifier: Apache-2.0
// families.cpp: the rows.
#include "families.hpp"

#include "attention.hpp"
#include "depthwise.hpp"
#include "epilogue.hpp"
#include "fused.hpp"
#include "gemm.hpp"
#include "loss.hpp"
#include "matmul.hpp"
#include "norm.hpp"
#include "optimizer.hpp"
#include "panels.hpp"
#include "pass.hpp"
#include "softmax.hpp"

#include <tenon/author/text.hpp>

namespace tenon::cpu {

namespace {

std::string refuse_without_onednn(const FragmentView& fragment, const tn_node& node) {
  const uint32_t dtype = fragment.tensor(node.inputs[0]).dtype();
  if (has_onednn() || dtype == TN_DTYPE_f64) return "";
  return author::text("this build of the CPU plugin has no oneDNN (TENON_CPU_ONEDNN=OFF) for ",
                      author::dtype_name(dtype), "; f64 runs without it");
}

std::string refuse_movement(const FragmentView&, const tn_node& node) {
  if (node.op != TN_OP_convert_layout || author::attribute_string(node, "layout").value_or("").empty())
    return "";
  return "this plugin has no private layouts";
}

double bytes_of(TensorView tensor) {
  return static_cast<double>(author::dtype_bytes(tensor.dtype(), tensor.elements()));
}

// Halves are widened in registers.
uint32_t own_type(uint32_t dtype) noexcept { return dtype; }

// Every operand once.
Cost traffic(const FragmentView& fragment, const tn_node& node) {
  Cost out;
  const auto add = [&](const uint32_t* list, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      if (list[i] != TN_ABSENT) out.bytes += bytes_of(fragment.tensor(list[i]));
    }
  };
  add(node.inputs, node.input_count);
  add(node.outputs, node.output_count);
  return out;
}

Cost cost_of_matmul(const FragmentView& fragment, const tn_node& node) {
  Cost out = traffic(fragment, node);
  const TensorView a = fragment.tensor(node.inputs[0]), c = fragment.tensor(node.outputs[0]);
  const bool turned = *author::attribute_i64(node, "transpose_a") != 0;
  out.flops =
      2 * static_cast<double>(c.elements()) * static_cast<double>(a.dims()[a.rank() - (turned ? 2 : 1)]);
  out.multiplied_in = matmul_dtype(a.dtype());
  return out;
}

// A product for each tap of each window; gradients have the same ones.
Cost cost_of_conv(const FragmentView& fragment, const tn_node& node) {
  Cost out = traffic(fragment, node);
  const bool data = node.op == TN_OP_conv2d_grad_data, weight = node.op == TN_OP_conv2d_grad_weight;
  const TensorView w = fragment.tensor(weight ? node.outputs[0] : node.inputs[1]),
                   y = fragment.tensor(data     ? node.inputs[0]
                                       : weight ? node.inputs[1]
                                                : node.outputs[0]);
  const double taps = static_cast<double>(w.dims()[1] * w.dims()[2] * w.dims()[3]);
  out.flops = 2 * static_cast<double>(y.elements()) * taps;
  out.multiplied_in = matmul_dtype(y.dtype());
  return out;
}

// Of what is cut out, and of a table, only what is wanted is read.
Cost cost_of_movement(const FragmentView& fragment, const tn_node& node) {
  return node.op == TN_OP_slice ? Cost{.bytes = 2 * bytes_of(fragment.tensor(node.outputs[0]))}
                                : traffic(fragment, node);
}
Cost cost_of_indexing(const FragmentView& fragment, const tn_node& node) {
  if (node.op != TN_OP_embedding) return traffic(fragment, node);
  return {.bytes =
              bytes_of(fragment.tensor(node.inputs[0])) + 2 * bytes_of(fragment.tensor(node.outputs[0]))};
}

// Ten rounds of Philox for each element.
Cost cost_of_random(const FragmentView& fragment, const tn_node& node) {
  Cost out = traffic(fragment, node);
  if (node.op != TN_OP_advance)
    out.flops = 80 * static_cast<double>(fragment.tensor(node.outputs[0]).elements());
  return out;
}
// What dropout thins and what advance moves on, not the seed and the offset of a draw.
bool draws_in_place(const tn_node& node, uint32_t input, uint32_t) {
  return input == 0 && (node.op == TN_OP_dropout || node.op == TN_OP_advance);
}
Cost cost_of_attention(const FragmentView& fragment, const tn_node& node) {
  Cost out = traffic(fragment, node);
  out.flops = attention_flops(fragment, node);
  out.multiplied_in = attention_multiplies_in(fragment, node);
  return out;
}

constexpr std::string_view elementwise = "elementwise";

constexpr Family rows[] = {
    {.name = elementwise},
    {.name = "REDUCTION", .build = build_reduction},
    {.name = "MATMUL",
     .refuse = refuse_without_onednn,
     .build_all = build_matmul,
     .takes = product_nodes,
     .cost = cost_of_matmul,
     .computes_in = matmul_dtype},
    {.name = "CONV",
     .refuse = refuse_without_onednn,
     .build_all = build_conv_nodes,
     .takes = conv_nodes,
     .cost = cost_of_conv,
     .computes_in = matmul_dtype},
    {.name = "POOL", .build = build_pool},
    {.name = "INDEXING", .build = build_indexing, .cost = cost_of_indexing},
    {.name = "RANDOM", .build = build_random, .cost = cost_of_random, .in_place = draws_in_place},
    {.name = "MOVEMENT", .refuse = refuse_movement, .build = build_movement, .cost = cost_of_movement},
    {.name = "NORM", .build_all = build_norm, .takes = kernel_nodes, .in_place = norm_in_place},
    {.name = "SOFTMAX", .build_all = build_softmax, .takes = kernel_nodes, .in_place = whole_in_place},
    {.name = "LOSS", .build_all = build_loss, .takes = kernel_nodes, .in_place = whole_in_place},
    {.name = "ATTENTION",
     .build = build_attention,
     .cost = cost_of_attention,
     .computes_in = attention_dtype},
    {.name = "OPTIMIZER",
     .build_all = build_updates,
     .computes_in = own_type,
     .honoured = honoured_by_update},
    {.name = "SCALING", .build_all = build_updates, .computes_in = own_type, .honoured = honoured_by_update},
};

constexpr uint8_t no_row = 0xFF;

// The row of each op's number.
constexpr auto row_of = [] {
  std::array<uint8_t, 256> out{};
  for (uint32_t op = 0; op < out.size(); ++op) {
    std::string_view name = author::op_row(op).family;
    const bool fuses = name == "UNARY" || name == "BINARY" || name == "TERNARY" || op == TN_OP_broadcast_to ||
                       op == TN_OP_constant;
    if (fuses) name = elementwise;
    out[op] = no_row;
    for (size_t row = 0; row < std::size(rows); ++row) {
      if (rows[row].name == name) out[op] = static_cast<uint8_t>(row);
    }
  }
  return out;
}();

bool only_moves(uint32_t op) noexcept {
  switch (op) {
    case TN_OP_cast:  // rounds once, whatever it passes through
    case TN_OP_identity:
    case TN_OP_one_hot:
    case TN_OP_embedding:
      return true;
    default:
      return author::op_row(op).family == "MOVEMENT";
  }
}

}  // namespace

const Family* family_of(uint32_t op) noexcept {
  const uint8_t row = op < row_of.size() ? row_of[op] : no_row;
  return row != no_row ? &rows[row] : nullptr;
}

const Family& pass_family() noexcept {
  static constexpr Family family{.name = "pass", .build_all = build_pass};
  return family;
}

const Family& panel_family() noexcept {
  static constexpr Family family{.name = "panels", .build_all = build_panels};
  return family;
}

Cost cost_of(const FragmentView& fragment, const tn_node& node) {
  const Family& family = *family_of(node.op);
  return family.cost != nullptr ? family.cost(fragment, node) : traffic(fragment, node);
}

uint32_t converted_half(const FragmentView& fragment, const tn_node& node) {
  if (only_moves(node.op)) return TN_DTYPE_NONE;
  const Family& family = *family_of(node.op);
  const auto converted = [&](const uint32_t* list, uint32_t count) -> uint32_t {
    for (uint32_t i = 0; i < count; ++i) {
      const uint32_t dtype =
          list[i] == TN_ABSENT ? uint32_t{TN_DTYPE_NONE} : fragment.tensor(list[i]).dtype();
      if (dtype != TN_DTYPE_f16 && dtype != TN_DTYPE_bf16) continue;
      if (family.computes_in == nullptr || family.computes_in(dtype) != dtype) return dtype;
    }
    return TN_DTYPE_NONE;
  };
  const uint32_t found = converted(node.inputs, node.input_count);
  return found != TN_DTYPE_NONE ? found : converted(node.outputs, node.output_count);
}

}  // namespace tenon::cpu
