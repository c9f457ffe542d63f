// SPDX-License-Identifier: Apache-2.0
// row.cpp: reading the tables' columns.
#include "conformance/ops/row.hpp"

#include <algorithm>

namespace tenon::conform {

namespace {

constexpr uint32_t dtypes[] = {
#define TN_DTYPE(number, name, bits, kind) number,
#define TN_DTYPE_RESERVED(number, name, bits, kind)
#include <tenon/dtypes.def>
};

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

bool takes(const Row& row, uint32_t dtype) {
  const bool floating = author::is_float(dtype), boolean = dtype == TN_DTYPE_bool;
  switch (row.dtypes) {
    case DtypeRule::FLOAT:
    case DtypeRule::NORM:
    case DtypeRule::LABEL:
    case DtypeRule::LOOKUP:
    case DtypeRule::RANDOM:
      return floating;
    case DtypeRule::NUMBER:
    case DtypeRule::INDEX:
      return !boolean;
    case DtypeRule::LOGIC:
      return boolean;
    case DtypeRule::ANY:  // a random offset is u64
      return row.family != Family::RANDOM || dtype == TN_DTYPE_u64;
    case DtypeRule::CAST:  // indices of a one_hot
      return row.family != Family::INDEXING || (!floating && !boolean);
    case DtypeRule::UPDATE:  // a row of rank-0 scalars alone is f32
      return row.family == Family::SCALING && row.inputs_max != TN_OP_MANY ? dtype == TN_DTYPE_f32 : floating;
    case DtypeRule::COMPARE:
    case DtypeRule::SELECT:
      return true;
  }
  return false;
}

}  // namespace

const Row* find_row(std::string_view name) noexcept {
  const auto* const found =
      std::find_if(std::begin(op_rows), std::end(op_rows), [&](const Row& row) { return row.name == name; });
  return found != std::end(op_rows) ? found : nullptr;
}

const Row* find_row(uint32_t op) noexcept {
  const auto* const found =
      std::find_if(std::begin(op_rows), std::end(op_rows), [&](const Row& row) { return row.op == op; });
  return found != std::end(op_rows) ? found : nullptr;
}

std::span<const uint32_t> all_dtypes() noexcept { return dtypes; }

uint32_t find_dtype(std::string_view name) noexcept {
  for (const uint32_t dtype : dtypes) {
    if (author::dtype_name(dtype) == name) return dtype;
  }
  return TN_DTYPE_NONE;
}

std::vector<uint32_t> subjects(const Row& row) {
  std::vector<uint32_t> out;
  std::copy_if(std::begin(dtypes), std::end(dtypes), std::back_inserter(out),
               [&](uint32_t dtype) { return takes(row, dtype); });
  return out;
}

std::vector<AttributeRow> attributes_of(const Row& row) {
  std::vector<AttributeRow> out;
  for (std::string_view rest = row.attributes; !trimmed(rest).empty();) {
    const size_t end = std::min(rest.find(';'), rest.size());
    const std::string_view one = rest.substr(0, end);
    const size_t colon = std::min(one.find(':'), one.size()), equals = std::min(one.find('='), one.size());
    AttributeRow& made = out.emplace_back();
    made.name = trimmed(one.substr(0, colon));
    made.type = trimmed(one.substr(std::min(colon + 1, equals), equals - std::min(colon + 1, equals)));
    made.required = equals == one.size();
    if (!made.required) made.fallback = trimmed(one.substr(equals + 1));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return out;
}

}  // namespace tenon::conform
