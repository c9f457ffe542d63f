// SPDX-License-Identifier: Apache-2.0
// infer.cpp: a node's types and shapes put together, and what the rules share.
#include "graph/infer.hpp"

#include <algorithm>

namespace tenon::graph {

AttributeValue* Question::find(std::string_view name) const noexcept {
  for (Attribute& attribute : attributes) {
    if (attribute.name == name) return &attribute.value;
  }
  return nullptr;
}

Result<std::vector<TensorSpec>> infer(const Question& question) {
  TN_TRY(check_ranges(question));
  const std::vector<DType> dtypes = TN_TRY(infer_dtypes(question));
  std::vector<Dims> dims = TN_TRY(infer_shapes(question));
  std::vector<TensorSpec> out(dtypes.size());
  for (size_t i = 0; i < out.size(); ++i) {
    out[i].dtype = dtypes[i];
    if (dtypes[i] != DType{}) out[i].dims = std::move(dims[i]);
  }
  return out;
}

Status bad(std::string text) { return Status(TN_INVALID, std::move(text)); }

Status expect(const Question& q, size_t input, const Dims& dims) {
  if (!q.has(input) || q.dims(input) == dims) return {};
  return bad("input " + std::to_string(input) + " is " + words(q.dims(input)) + ", it must be " +
             words(dims));
}

Status expect_rank(const Question& q, size_t input, size_t rank) {
  if (!q.has(input) || q.rank(input) == rank) return {};
  return bad("input " + std::to_string(input) + " has rank " + std::to_string(q.rank(input)) +
             ", it must be of rank " + std::to_string(rank));
}

Result<size_t> axis_of(int64_t given, size_t rank) {
  const auto size = static_cast<int64_t>(rank);
  if (given >= -size && given < size) return static_cast<size_t>(given < 0 ? given + size : given);
  return bad("axis " + std::to_string(given) + " is outside rank " + std::to_string(rank));
}

Result<Dims> broadcast(const Dims& a, const Dims& b) {
  Dims out(std::max(a.size(), b.size()), 1);
  for (size_t i = 0; i < out.size(); ++i) {
    const size_t from_end = out.size() - i;
    const int64_t x = from_end > a.size() ? 1 : a[a.size() - from_end];
    const int64_t y = from_end > b.size() ? 1 : b[b.size() - from_end];
    if (x != y && x != 1 && y != 1) {
      return bad(words(a) + " and " + words(b) + " do not broadcast: dim " + std::to_string(i) +
                 " of the result would be " + std::to_string(x) + " and " + std::to_string(y));
    }
    out[i] = x == 1 ? y : x;
  }
  return out;
}

int64_t plus(int64_t a, int64_t b) noexcept {
  int64_t out = 0;
  if (!__builtin_add_overflow(a, b, &out)) return out;
  return a < 0 ? INT64_MIN : INT64_MAX;
}

int64_t times(int64_t a, int64_t b) noexcept {
  int64_t out = 0;
  if (!__builtin_mul_overflow(a, b, &out)) return out;
  return (a < 0) != (b < 0) ? INT64_MIN : INT64_MAX;
}

}  // namespace tenon::graph
