// SPDX-License-Identifier: Apache-2.0
// variables.hpp: what is worth knowing of environment variables that old documents name: which are read no more, which mean something
// else than is told of them, and what to use instead.
//
// Invariant: one row for each name; a name that is not here means what its library says.
#pragma once

#include <string_view>

namespace tenon::tool {

// What to know of a variable that is set; empty when there is nothing. [any-thread; does not block; cannot fail]
std::string_view remark_on(std::string_view name) noexcept;

}  // namespace tenon::tool
