// SPDX-License-Identifier: Apache-2.0
// attention_way_back.hpp: the gradients of attention that is written as products, as gradients.def writes them.
#pragma once

#include "passes/attention_match.hpp"
#include "passes/attention_values.hpp"

namespace tenon::passes {

// Adds the way back to a match whose way forward is known, or says why it is none of attention's; where there is none, "" and nothing.
// [any-thread; does not block; cannot fail]
std::string find_way_back(const Values& values, uint32_t softmax, AttentionMatch& match);

}  // namespace tenon::passes
