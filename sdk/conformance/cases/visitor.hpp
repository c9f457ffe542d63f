// SPDX-License-Identifier: Apache-2.0
// visitor.hpp: a case that is carried out by two processes: this one, and a visitor that runs the same case from its
// beginning, with a seat and a folder between the two.
//
// Invariant: a visitor is gone before `send_visitor` returns.
#pragma once

#include "conformance/context.hpp"

#include <string>

namespace tenon::conform {

// Whether this process is the visitor. [case's thread; does not block; cannot fail]
bool is_visitor() noexcept;
// Runs this case in another process, whose seat has `folder`, and waits for its end. What fails there fails here, told as
// "in `who`: …". [case's thread; blocks; may fail]
Status send_visitor(Context& t, const std::string& folder, const std::string& who);

}  // namespace tenon::conform
