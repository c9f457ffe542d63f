// SPDX-License-Identifier: Apache-2.0
// page.hpp: the template of the timeline's page: page.html with its style and scripts inside.
//
// Invariant: it holds "@TRACE@" once, where the data goes, and refers to nothing outside itself.
#pragma once

#include <string_view>

namespace tenon::tool {

// [any-thread; does not block; cannot fail]
std::string_view page_template() noexcept;

}  // namespace tenon::tool
