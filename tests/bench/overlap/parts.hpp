// SPDX-License-Identifier: Apache-2.0
// parts.hpp: what the suite measures: planning, and steps by one rule beside steps by another.
#pragma once

namespace bench {

// How long it takes to plan.
void planner();
// Two ranks that compute and sum, over shared memory and over a wire of 10 and of 1 Gbit/s: ours beside other rules and torch.
void policies();
// The same with one stream and with several, as overlap is usually explained, over the wires alone.
void figures();

}  // namespace bench
