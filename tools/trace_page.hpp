// SPDX-License-Identifier: Apache-2.0
// trace_page.hpp: runs as one page that needs nothing beside itself.
#pragma once

#include <tenon/trace.hpp>

#include <string>
#include <vector>

namespace tenon::tool {

// All ranks of one run.
struct TraceRun {
  std::string name{};
  std::vector<std::string> files{};  // what it was read from
  Trace trace{};
};

// Several runs stand one over the other, each from its own first event on, on one scale of time.
// [any-thread; does not block; cannot fail]
std::string trace_page(const std::vector<TraceRun>& runs);

}  // namespace tenon::tool
