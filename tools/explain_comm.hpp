// SPDX-License-Identifier: Apache-2.0
// explain_comm.hpp: `tenon explain --comm`: when the gradients of a step would leave, and with which others.
#pragma once

#include "comm_case.hpp"

#include <string>

namespace tenon::tool {

struct CommQuestion {
  Link link{};
  std::string costs{};  // a file; empty: the model
};

// What the link costs, read from its file where there is one. [any-thread; may block; may fail]
Result<CommLink> link_of(const CommQuestion& asked);
// What the plan is made from, the plan, and the predicted step as lanes. [any-thread; does not block; cannot fail]
std::string told(const CommStep& step, const CommLink& link, const CommPlan& plan);

}  // namespace tenon::tool
