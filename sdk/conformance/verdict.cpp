// SPDX-License-Identifier: Apache-2.0
// verdict.cpp: the names of verdicts and which of them fail a run.
#include "conformance/verdict.hpp"

namespace tenon::conform {

const char* name(Verdict verdict) noexcept {
  switch (verdict) {
    case Verdict::passed:
      return "passed";
    case Verdict::failed:
      return "failed";
    case Verdict::skipped:
      return "skipped";
    case Verdict::unsupported:
      return "unsupported";
    case Verdict::unexplained:
      return "unexplained";
    case Verdict::expected_failure:
      return "expected failure";
    case Verdict::unexpected_pass:
      return "unexpected pass";
    case Verdict::not_run:
      return "not run";
  }
  return "?";
}

bool counts_as_failure(Verdict verdict, bool verify) noexcept {
  if (verdict == Verdict::failed || verdict == Verdict::not_run) return true;
  return verify && (verdict == Verdict::unexplained || verdict == Verdict::unexpected_pass);
}

}  // namespace tenon::conform
