// SPDX-License-Identifier: Apache-2.0
// chain.cpp: trying rows until the plugin says yes.
#include "conformance/fragments/chain.hpp"

#include "conformance/fragments/draw_group.hpp"
#include "conformance/ops/draw.hpp"

namespace tenon::conform {

namespace {

Group folded(const Row& join, const Row& fold, uint32_t dtype, int64_t rows, int64_t columns) {
  Group out;
  const uint32_t column = out.add_input({.dtype = dtype, .dims = {rows, 1}, .values = Values::tame}),
                 row = out.add_input({.dtype = dtype, .dims = {1, columns}, .values = Values::tame}),
                 inner = out.add({.dtype = dtype, .dims = {rows, columns}}),
                 result = out.add({.dtype = dtype, .dims = {rows}});
  out.nodes.push_back({.row = &join, .subject = dtype, .in = {column, row}, .out = {inner}});
  out.nodes.push_back({.row = &fold,
                       .subject = dtype,
                       .in = {inner},
                       .out = {result},
                       .attributes = {{.name = "axes", .kind = TN_ATTRIBUTE_I64S, .integers = {1}},
                                      {.name = "keepdims", .kind = TN_ATTRIBUTE_I64}}});
  out.outputs = {result};
  out.value_seed = 1;
  return out;
}

}  // namespace

Group chain_of(const Row& row, uint32_t dtype, size_t nodes, const std::vector<int64_t>& dims) {
  Group out;
  uint32_t last = out.add_input({.dtype = dtype, .dims = dims, .values = Values::tame});
  for (size_t i = 0; i < nodes; ++i) {
    const uint32_t next = out.add({.dtype = dtype, .dims = dims, .values = Values::tame});
    out.nodes.push_back({.row = &row,
                         .subject = dtype,
                         .in = {last},
                         .out = {next},
                         .attributes = simplest_attributes(row, dtype)});
    last = next;
  }
  out.outputs = {last};
  out.value_seed = 1;
  return out;
}

Result<Group> find_chain(Context& t, const Device& device, size_t nodes, const std::vector<int64_t>& dims) {
  TN_TRY(needs_kernels(t, device));
  std::string reason;
  for (const Row* row : elementwise_rows()) {
    const bool same =
        row->dtypes == DtypeRule::NUMBER || row->dtypes == DtypeRule::FLOAT || row->dtypes == DtypeRule::ANY;
    if (row->inputs_min != 1 || !same) continue;
    for (const uint32_t dtype : subjects(*row)) {
      Group out = chain_of(*row, dtype, nodes, dims);
      const tn_support said = TN_TRY(supports(t, device, WholeGroup(out).fragment()));
      if (said.verdict != TN_SUPPORT_NO) return out;
      if (reason.empty()) reason = said.reason;
    }
  }
  return t.unsupported("group.elementwise", "the plugin runs no chain of elementwise nodes: " + reason);
}

Result<Group> find_folded(Context& t, const Device& device, int64_t rows, int64_t columns) {
  TN_TRY(needs_kernels(t, device));
  std::string reason;
  for (const uint32_t dtype : {uint32_t{TN_DTYPE_f32}, uint32_t{TN_DTYPE_f16}, uint32_t{TN_DTYPE_i32}}) {
    for (const Row* join : elementwise_rows()) {
      if (join->inputs_min != 2 || join->dtypes != DtypeRule::NUMBER) continue;
      for (const Row& fold : op_rows) {
        if (fold.family != Family::REDUCTION || fold.dtypes == DtypeRule::INDEX || !takes(fold, dtype))
          continue;
        Group out = folded(*join, fold, dtype, rows, columns);
        const tn_support said = TN_TRY(supports(t, device, WholeGroup(out).fragment()));
        if (said.verdict != TN_SUPPORT_NO) return out;
        if (reason.empty()) reason = said.reason;
      }
    }
  }
  return t.unsupported("group.reduction", "the plugin reduces nothing that a fragment makes: " + reason);
}

Group resized(Group folded, int64_t rows, int64_t columns) {
  folded.values[0].operand.dims = {rows, 1};
  folded.values[1].operand.dims = {1, columns};
  folded.values[2].operand.dims = {rows, columns};
  folded.values[3].operand.dims = {rows};
  return folded;
}

}  // namespace tenon::conform
