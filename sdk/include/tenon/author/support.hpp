// SPDX-License-Identifier: Apache-2.0
// support.hpp: answering `supports` in one line each.
//
// Invariant: an answer other than "native" carries its reason.
#pragma once

#include <tenon/kernel.h>
#include <tenon/author/text.hpp>
#include <tenon/result.hpp>

namespace tenon::author {

// "No, because …": `return refuse(out, text("dtype ", name, " is not computed here"));` It is TN_OK: the
// question was a good one. [any-thread; does not block; cannot fail]
inline Status refuse(tn_support& out, std::string_view reason) {
  out.verdict = TN_SUPPORT_NO;
  set_text(out.reason, reason);
  return {};
}

// "Yes, as the device likes it." [any-thread; does not block; cannot fail]
inline Status accept(tn_support& out, double cost_ns = 0, uint64_t workspace_bytes = 0) {
  out.verdict = TN_SUPPORT_NATIVE;
  out.cost_ns = cost_ns;
  out.workspace_bytes = workspace_bytes;
  return {};
}

// "Yes, but in another type or layout": the reason says which. [any-thread; does not block; cannot fail]
inline Status accept_converted(tn_support& out, std::string_view reason, double cost_ns = 0) {
  out.verdict = TN_SUPPORT_CONVERTED;
  out.cost_ns = cost_ns;
  set_text(out.reason, reason);
  return {};
}

// "Yes, but not what the device is good at." [any-thread; does not block; cannot fail]
inline Status accept_emulated(tn_support& out, std::string_view reason, double cost_ns = 0) {
  out.verdict = TN_SUPPORT_EMULATED;
  out.cost_ns = cost_ns;
  set_text(out.reason, reason);
  return {};
}

}  // namespace tenon::author
