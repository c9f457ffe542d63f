// SPDX-License-Identifier: Apache-2.0
// elements.hpp: a constant's bytes as text: "[1, 2.5]" where a few decimal numbers tell them exactly, else "0x…", byte by
// byte in the order of memory.
#pragma once

#include <tenon/fragment.hpp>

#include <cstddef>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace tenon::graph {

using Number = std::variant<int64_t, double>;

// [any-thread; does not block; cannot fail]
std::string elements_text(const TensorSpec& spec, std::span<const std::byte> bytes);
// TN_INVALID for a number that the type does not hold, or a type that is written in hex only (halves).
// [any-thread; does not block; may fail]
Result<std::vector<std::byte>> bytes_from(DType dtype, const std::vector<Number>& numbers);
// Of an even number of hex digits. TN_INVALID naming the one that is none. [any-thread; does not block; may fail]
Result<std::vector<std::byte>> bytes_from_hex(std::string_view digits);

}  // namespace tenon::graph
