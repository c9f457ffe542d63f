// SPDX-License-Identifier: Apache-2.0
// explain_comm.cpp: a plan of communication and what it was made from, in words.
#include "explain_comm.hpp"

#include "text_file.hpp"

#include <tenon/strategy.hpp>

namespace tenon::tool {

Result<OverlapOptions> overlap_of(const std::vector<std::string>& options) {
  std::string text = "[overlap]\n";
  for (const std::string& option : options) {
    const size_t equals = option.find('=');
    if (equals == std::string::npos) return Status(TN_INVALID, "--overlap '" + option + "': write KEY=VALUE");
    const std::string value = option.substr(equals + 1);
    const bool plain =
        value == "true" || value == "false" || value.find_first_not_of("0123456789.") == std::string::npos;
    text += option.substr(0, equals) + " = " + (plain ? value : "\"" + value + "\"") + "\n";
  }
  return TN_TRY(Strategy::parse(text, "--overlap"))
  .overlap;
}

Result<CommLink> link_of(const CommQuestion& asked) {
  if (asked.costs.empty()) return modelled(asked.link);
  return measured(asked.link, TN_TRY(text_of(asked.costs)), asked.costs);
}

std::string told(const CommStep& step, const CommLink& link, const CommPlan& plan) {
  return "step       " + step.told + "\nlink       " + link.told + "\n" + plan.explain() + plan.timeline();
}

}  // namespace tenon::tool
