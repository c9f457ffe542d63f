// SPDX-License-Identifier: Apache-2.0
// explain_comm.cpp: a plan of communication and what it was made from, in words.
#include "explain_comm.hpp"

#include "text_file.hpp"

namespace tenon::tool {

Result<CommLink> link_of(const CommQuestion& asked) {
  if (asked.costs.empty()) return modelled(asked.link);
  return measured(asked.link, TN_TRY(text_of(asked.costs)), asked.costs);
}

std::string told(const CommStep& step, const CommLink& link, const CommPlan& plan) {
  return "step       " + step.told + "\nlink       " + link.told + "\n" + plan.explain() + plan.timeline();
}

}  // namespace tenon::tool
