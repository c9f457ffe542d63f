// SPDX-License-Identifier: Apache-2.0
// parts.hpp: what the suite measures: planning, and steps by one rule beside steps by another.
#pragma once

#include <functional>
#include <string>

namespace bench {

using Asked = std::function<bool(const std::string& contest)>;

// How long it takes to plan.
void planner();
// Of contests by their names, those that are `asked` for: two ranks that compute and sum, over shared memory and over a wire of 10 and of 1 Gbit/s: ours beside other rules and torch.
void policies(const Asked& asked);
// The same with one stream and with several, as overlap is usually explained, over the wires alone.
void figures(const Asked& asked);

}  // namespace bench
