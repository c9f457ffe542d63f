// SPDX-License-Identifier: Apache-2.0
// words.hpp: shapes, types, attributes and names as messages and the text form write them.
#pragma once

#include <tenon/fragment.hpp>

#include <string>
#include <string_view>

namespace tenon::graph {

using Dims = std::vector<int64_t>;

// "[2,3]" [any-thread; does not block; cannot fail]
std::string words(const Dims& dims);
// "bf16[2,3]"
std::string words(const TensorSpec& spec);
// "1", "0.5", "[1,2]", "\"sum\"", "f32": read back it is the same value, bit for bit; a NaN is the quiet one.
std::string words(const AttributeValue& value);
// A double that reads back as itself and never as an integer: "1.0", "1e+30", "-inf".
std::string words(double value);
// "y", "fc1.weight", "7": what a value or an output may be called; "" or why not.
std::string why_no_name(std::string_view name);
// Whether `c` may stand in a name.
bool is_name_character(char c) noexcept;

}  // namespace tenon::graph
