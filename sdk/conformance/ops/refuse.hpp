// SPDX-License-Identifier: Apache-2.0
// refuse.hpp: fragments that no device can run.
//
// Invariant: a fragment that must be refused is refused by `supports` and by `compile`, each with words.
#pragma once

#include "conformance/objects.hpp"

namespace tenon::conform {

// The two calls as they are, for whoever passes something odd. [any-thread]
int32_t ask_supports(const Device& device, const tn_fragment* fragment, tn_support* out, tn_error* e);
int32_t ask_compile(const Device& device, const tn_fragment* fragment, tn_kernel** out, tn_error* e);

// No device can run it: both questions are TN_INVALID, or "no" with a reason where `unsupported` will do. A failure counts
// against the case. [case's thread]
void refuses_fragment(Context& t, const Device& device, const tn_fragment& fragment, const std::string& what,
                      bool unsupported_will_do);

}  // namespace tenon::conform
