// SPDX-License-Identifier: Apache-2.0
// trace_page.hpp: a trace as one page that needs nothing beside itself.
#pragma once

#include <tenon/trace.hpp>

#include <string>
#include <vector>

namespace tenon::tool {

// `files`: what the trace was read from, for its title. [any-thread; does not block; cannot fail]
std::string trace_page(const Trace& trace, const std::vector<std::string>& files);

}  // namespace tenon::tool
