// SPDX-License-Identifier: Apache-2.0
// dtypes.hpp: element types under the names that safetensors gives them.
#pragma once

#include <tenon/types.hpp>

#include <optional>
#include <string_view>

namespace tenon::checkpoint {

// "BF16"; "" for a type that the format has no name for. [any-thread; does not block; cannot fail]
std::string_view format_name(DType dtype) noexcept;
// Nothing for a name that Tenon has no type for. [any-thread; does not block; cannot fail]
std::optional<DType> dtype_called(std::string_view format_name) noexcept;

}  // namespace tenon::checkpoint
