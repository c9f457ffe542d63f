// SPDX-License-Identifier: Apache-2.0
// ranges.cpp: what numbers and words the attributes of a node may be: the rows of ranges.def, which plugins read as well.
//
// Invariant: a mistake is told in the words that the author framework has for it.
#include "graph/infer.hpp"

#include <tenon/author/op_ranges.hpp>

namespace tenon::graph {
namespace {

Status check_range(const author::AttributeRange& range, const AttributeValue& value) {
  if (const auto* word = std::get_if<std::string>(&value))
    return author::is_within(range, *word) ? Status() : bad(author::out_of_range(range, words(value)));
  const auto* whole = std::get_if<int64_t>(&value);
  const double number = whole != nullptr ? static_cast<double>(*whole) : std::get<double>(value);
  if (author::is_within(range, number)) return {};
  return bad(author::out_of_range(
      range, whole != nullptr ? std::to_string(*whole) : author::detail::digits(number)));
}

}  // namespace

Status check_ranges(const Question& q) {
  for (const author::AttributeRange& range : author::ranges_of(static_cast<uint32_t>(q.op())))
    TN_TRY(check_range(range, *q.find(range.attribute)));
  if (q.op() != Op::constant && q.op() != Op::pad) return {};
  const auto dtype = static_cast<uint32_t>(q.op() == Op::pad ? q.dtype(0) : q.type("dtype"));
  const double value = std::get<double>(*q.find("value"));
  return author::holds(dtype, value) ? Status() : bad(author::not_held(dtype, value));
}

}  // namespace tenon::graph
