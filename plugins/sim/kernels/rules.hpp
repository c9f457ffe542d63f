// SPDX-License-Identifier: Apache-2.0
// rules.hpp: whether a fragment can run under a profile, and if not, why.
//
// Invariant: what passes here a kernel runs without looking again. TN_UNSUPPORTED is what this device refuses, TN_INVALID
// what ops.def forbids; both name the node and the values.
#pragma once

#include "engine/profile.hpp"

#include <tenon/author/fragment_view.hpp>
#include <tenon/result.hpp>

namespace tenon::sim {

// [any-thread; does not block; may fail]
Status check_fragment(const author::FragmentView& fragment, const Profile& profile);

}  // namespace tenon::sim
