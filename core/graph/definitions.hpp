// SPDX-License-Identifier: Apache-2.0
// definitions.hpp: why a value is not there where a text uses it: a cycle, an order, or a name nobody defines.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace tenon::graph {

// `name` is used in the statement that begins at `at` and is none of `known`. [any-thread; does not block; cannot fail]
std::string why_not_defined(std::string_view text, size_t at, const std::string& name,
                            std::span<const std::string_view> known);

}  // namespace tenon::graph
