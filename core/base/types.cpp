// SPDX-License-Identifier: Apache-2.0
// types.cpp: names and widths of element types and ops, straight from the ABI's tables.
#include <tenon/types.hpp>

#include "base/extent.hpp"
#include "base/text.hpp"

#include <array>

namespace tenon {
namespace {

constexpr auto dtype_names = std::to_array<std::string_view>({
#define TN_DTYPE(number, name, bits, class) #name,
#include <tenon/dtypes.def>
});

constexpr auto op_names = std::to_array<std::string_view>({
#define TN_OP(number, name, version, inputs_min, inputs_max, outputs, family, dtypes, shape, tolerance, \
              attributes, doc)                                                                          \
#name,
#include <tenon/ops.def>
});

}  // namespace

std::string_view name(DType dtype) noexcept {
  switch (static_cast<uint32_t>(dtype)) {
#define TN_DTYPE(number, name, bits, class) \
  case number:                              \
    return #name;
#include <tenon/dtypes.def>
    default:
      return "?";
  }
}

std::string_view name(Op op) noexcept {
  switch (static_cast<uint32_t>(op)) {
#define TN_OP(number, name, version, inputs_min, inputs_max, outputs, family, dtypes, shape, tolerance, \
              attributes, doc)                                                                          \
  case number:                                                                                          \
    return #name;
#include <tenon/ops.def>
    default:
      return "?";
  }
}

uint32_t bits(DType dtype) noexcept {
  switch (static_cast<uint32_t>(dtype)) {
#define TN_DTYPE(number, name, bits, class) \
  case number:                              \
    return bits;
#include <tenon/dtypes.def>
    default:
      return 0;
  }
}

uint64_t bytes(DType dtype, uint64_t elements) noexcept { return base::packed_bytes(elements, bits(dtype)); }

Result<DType> dtype_from(std::string_view text) {
#define TN_DTYPE(number, name, bits, class) \
  if (text == #name) return static_cast<DType>(number);
#include <tenon/dtypes.def>
  return Status(TN_NOT_FOUND, "no element type is called " + base::quoted(text) +
                                  base::did_you_mean(text, dtype_names) +
                                  "; the types are listed in tenon/dtypes.def");
}

Result<Op> op_from(std::string_view text) {
#define TN_OP(number, name, version, inputs_min, inputs_max, outputs, family, dtypes, shape, tolerance, \
              attributes, doc)                                                                          \
  if (text == #name) return static_cast<Op>(number);
#include <tenon/ops.def>
  return Status(TN_NOT_FOUND, "no op is called " + base::quoted(text) + base::did_you_mean(text, op_names) +
                                  "; the ops are listed in tenon/ops.def");
}

}  // namespace tenon
