// SPDX-License-Identifier: Apache-2.0
// tensor_spec.cpp: sizes of a TensorSpec, and what makes one acceptable.
#include "base/extent.hpp"
#include "base/fragment_parts.hpp"

#include <bit>

namespace tenon {

uint64_t TensorSpec::elements() const noexcept { return base::element_count(dims); }

uint64_t TensorSpec::bytes() const noexcept { return base::extent_of(dims, strides, bits(dtype)).bytes; }

namespace base {
namespace {

Status bad(std::string text) { return Status(TN_INVALID, std::move(text)); }

bool is_reserved(DType dtype) noexcept {
  switch (static_cast<uint32_t>(dtype)) {
#define TN_DTYPE(number, name, bits, class)
#define TN_DTYPE_RESERVED(number, name, bits, class) case number:
#include <tenon/dtypes.def>
    return true;
    default:
      return false;
  }
}

Status check_dtype(DType dtype) {
  if (bits(dtype) == 0)
    return bad("element type " + std::to_string(static_cast<uint32_t>(dtype)) + " is not in dtypes.def");
  if (is_reserved(dtype))
    return bad("element type " + std::string(name(dtype)) + " is reserved: no op takes it yet");
  return {};
}

Status check_not_negative(const std::vector<int64_t>& values, const char* what) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] < 0) {
      return bad(std::string(what) + " " + std::to_string(i) + " is " + std::to_string(values[i]) +
                 ": it must be 0 or more");
    }
  }
  return {};
}

}  // namespace

Status check_spec(const TensorSpec& spec) {
  TN_TRY(check_dtype(spec.dtype));
  if (spec.dims.size() > TN_MAX_RANK) {
    return bad("rank " + std::to_string(spec.dims.size()) + " is above the limit of " +
               std::to_string(TN_MAX_RANK) + ": merge dims");
  }
  TN_TRY(check_not_negative(spec.dims, "dim"));
  TN_TRY(check_not_negative(spec.strides, "stride"));
  if (!spec.strides.empty() && spec.strides.size() != spec.dims.size()) {
    return bad(std::to_string(spec.strides.size()) + " strides for " + std::to_string(spec.dims.size()) +
               " dims: give one per dim, or none");
  }
  if (spec.alignment != 0 && !std::has_single_bit(spec.alignment)) {
    return bad("alignment " + std::to_string(spec.alignment) + " is no power of two");
  }
  if (extent_of(spec.dims, spec.strides, bits(spec.dtype)).too_large) {
    return bad("it takes more than 2^63 - 1 bytes: make its dims smaller");
  }
  return {};
}

void drop_dense_strides(TensorSpec& spec) {
  if (spec.strides.empty()) return;
  int64_t expected = 1;
  for (size_t i = spec.dims.size(); spec.elements() != 0 && i-- > 0;) {
    if (spec.dims[i] == 1) continue;
    if (spec.strides[i] != expected) return;
    expected *= spec.dims[i];
  }
  spec.strides.clear();
}

}  // namespace base
}  // namespace tenon
