// SPDX-License-Identifier: Apache-2.0
// bucket_rule.cpp: the rules of buckets by name. Alone, so that what reads names needs no planner.
#include <tenon/overlap.hpp>

#include "base/text.hpp"

#include <algorithm>

namespace tenon {
namespace {

constexpr std::string_view rules[] = {"automatic", "documents", "per_tensor", "ddp",
                                      "paddle",    "mg_wfbp",   "none"};

}  // namespace

std::string_view name(BucketRule rule) noexcept {
  const auto i = static_cast<size_t>(rule);
  return i < std::size(rules) ? rules[i] : "?";
}

Result<BucketRule> bucket_rule_from(std::string_view text) {
  const auto* found = std::find(std::begin(rules), std::end(rules), text);
  if (found != std::end(rules)) return static_cast<BucketRule>(found - std::begin(rules));
  std::vector<std::string> known(std::begin(rules), std::end(rules));
  return Status(TN_NOT_FOUND, "one of " + base::join(known, ", ") + base::did_you_mean(text, rules));
}

}  // namespace tenon
