// SPDX-License-Identifier: Apache-2.0
// page.hpp: the template of the HTML report: page.html with its style and scripts inside.
//
// Invariant: it holds "@REPORT@" once, where the report's JSON goes, and refers to nothing outside itself.
#pragma once

#include <string_view>

namespace tenon::conform {

// [any-thread; does not block; cannot fail]
std::string_view page_template() noexcept;

}  // namespace tenon::conform
