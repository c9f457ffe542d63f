// SPDX-License-Identifier: Apache-2.0
// aliases.hpp: which of the in-place pairs that a fragment declares are honoured.
//
// Invariant: of an honoured pair no element of the input is read after its place was written.
#pragma once

#include "builder.hpp"

namespace tenon::cpu {

// Whether each declared alias is honoured. [any-thread; does not block; may throw bad_alloc]
author::Honoured honoured_aliases(const FragmentView& fragment, const std::vector<Group>& groups);

}  // namespace tenon::cpu
