// SPDX-License-Identifier: Apache-2.0
// extent.cpp: see extent.hpp. Everything is computed in 128 bits step by step and clamped after each step.
#include "base/extent.hpp"

#include <tenon/types.hpp>

#include <algorithm>

namespace tenon::base {
namespace {

__extension__ typedef unsigned __int128 wide;
constexpr uint64_t limit = INT64_MAX;

uint64_t clamp(wide value, bool& too_large) noexcept {
  if (value <= limit) return static_cast<uint64_t>(value);
  too_large = true;
  return limit;
}

bool any_negative(std::span<const int64_t> values) noexcept {
  return std::any_of(values.begin(), values.end(), [](int64_t value) { return value < 0; });
}

// A zero anywhere makes an empty tensor, however large the other dims are.
uint64_t product(std::span<const int64_t> dims, bool& too_large) noexcept {
  if (std::find(dims.begin(), dims.end(), 0) != dims.end()) return 0;
  uint64_t count = 1;
  for (const int64_t dim : dims)
    count = clamp(static_cast<wide>(count) * static_cast<uint64_t>(dim), too_large);
  return count;
}

}  // namespace

uint64_t packed_bytes(uint64_t elements, uint32_t bits) noexcept {
  bool too_large = false;
  return clamp((static_cast<wide>(elements) * bits + 7) / 8, too_large);
}

uint64_t element_count(std::span<const int64_t> dims) noexcept {
  bool too_large = false;
  return any_negative(dims) ? 0 : product(dims, too_large);
}

Extent extent_of(std::span<const int64_t> dims, std::span<const int64_t> strides, uint32_t bits) noexcept {
  Extent extent;
  if (any_negative(dims) || any_negative(strides)) return {.elements = 0, .bytes = 0, .too_large = true};
  extent.elements = product(dims, extent.too_large);
  uint64_t span = extent.elements;
  if (!strides.empty() && extent.elements != 0) {
    span = 1;
    for (size_t i = 0; i < dims.size() && i < strides.size(); ++i) {
      const wide step = static_cast<wide>(dims[i] - 1) * static_cast<uint64_t>(strides[i]);
      span = clamp(span + step, extent.too_large);
    }
  }
  extent.bytes = clamp((static_cast<wide>(span) * bits + 7) / 8, extent.too_large);
  return extent;
}

Extent extent_of(const tn_tensor& tensor) noexcept {
  const size_t rank = std::min<size_t>(tensor.rank, TN_MAX_RANK);
  const std::span dims(tensor.dims, rank);
  const std::span strides(tensor.strides, tensor.strides == nullptr ? 0 : rank);
  return extent_of(dims, strides, bits(static_cast<DType>(tensor.dtype)));
}

}  // namespace tenon::base
