// SPDX-License-Identifier: Apache-2.0
// explain_passes.hpp: what passes made of a graph, in few lines: one for each change and reason, with whom it met.
#pragma once

#include <tenon/passes.hpp>

#include <string>

namespace tenon::tool {

// One line for each pass, change and reason: what was done, then what was asked for and not done, in the passes' order; "" where
// nothing was. Names past the third are counted. [any-thread; does not block; cannot fail]
std::string told_passes(std::span<const passes::Note> notes);

}  // namespace tenon::tool
