// SPDX-License-Identifier: Apache-2.0
// verdict.hpp: what a run says about each case once the vendor's declarations were held against what happened.
//
// Invariant: every selected case ends with exactly one verdict; `counts_as_failure` alone decides the exit code.
#pragma once

#include "conformance/context.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace tenon::conform {

enum class Verdict {
  passed,
  failed,
  skipped,           // the machine lacks something
  unsupported,       // the plugin lacks it, and capabilities.toml says why, for good or until a date
  unexplained,       // the plugin lacks it, and nobody says why: a failure under --verify
  expected_failure,  // fails, as capabilities.toml says, with a date by which it must not
  unexpected_pass,   // declared to fail or to be unsupported, and works: a failure under --verify
  not_run,           // something before it made it pointless
};

// "passed", "failed", … [any-thread; does not block; cannot fail]
const char* name(Verdict verdict) noexcept;
// Whether a run with this verdict fails. [any-thread; does not block; cannot fail]
bool counts_as_failure(Verdict verdict, bool verify) noexcept;

struct CaseResult {
  std::string name{};
  std::string op{}, dtype{};  // of the case, where it is about one
  int level = 0;
  uint32_t round = 0;  // of --repeat
  Verdict verdict = Verdict::not_run;
  Finding finding{};
  std::string declared{};   // the reason in capabilities.toml that matched
  std::string expires{};    // and its date, where it has one
  std::string output{};     // what the process wrote to standard error, cut in the middle
  bool in_company = false;  // it fails after the cases of its group that come before it, and passes alone
  double milliseconds = 0;
};

}  // namespace tenon::conform
