// SPDX-License-Identifier: Apache-2.0
// vocabulary.cpp: two nodes of each op over the same inputs, and what the plugin says to them.
#include "conformance/fragments/vocabulary.hpp"

#include "conformance/fragments/draw_group.hpp"
#include "conformance/ops/draw.hpp"
#include "conformance/ops/kernel.hpp"

#include <map>

namespace tenon::conform {

namespace {

Group two_of(const Row& row, uint32_t dtype) {
  const bool fold = row.family == Family::REDUCTION, index = row.dtypes == DtypeRule::INDEX;
  const uint32_t result = row.dtypes == DtypeRule::COMPARE ? uint32_t{TN_DTYPE_bool}
                          : index                          ? uint32_t{TN_DTYPE_i64}
                                                           : dtype;
  const std::vector<int64_t> dims = fold ? std::vector<int64_t>{} : std::vector<int64_t>{4};
  Group out;
  GroupNode node{.row = &row, .subject = dtype};
  node.attributes = simplest_attributes(row, dtype);
  for (uint32_t i = 0; i < row.inputs_min; ++i) {
    const bool condition = row.dtypes == DtypeRule::SELECT && i == 0;
    node.in.push_back(out.add_input({.dtype = condition ? uint32_t{TN_DTYPE_bool} : dtype, .dims = {4}}));
  }
  for (int i = 0; i < 2; ++i) {
    node.out = {out.add({.dtype = result, .dims = dims})};
    out.outputs.push_back(node.out[0]);
    out.nodes.push_back(node);
  }
  return out;
}

}  // namespace

Result<const Vocabulary*> Vocabulary::of(Context& t, const Device& device) {
  static std::map<std::string, Vocabulary> learned;  // cases run one after another
  const std::string whose = words(t.settings().plugin, " ", t.settings().device);
  const auto known = learned.find(whose);
  if (known != learned.end()) return &known->second;
  Vocabulary out;
  for (const Row& row : op_rows) {
    if (row.shape != ShapeRule::BROADCAST && row.family != Family::REDUCTION) continue;
    for (const uint32_t dtype : subjects(row)) {
      const auto said = supports(t, device, WholeGroup(two_of(row, dtype)).fragment());
      if (said.ok() && said->verdict != TN_SUPPORT_NO) out.add(row, dtype);
    }
  }
  return &learned.emplace(whose, std::move(out)).first->second;
}

}  // namespace tenon::conform
