// SPDX-License-Identifier: Apache-2.0
// capabilities.hpp: what a vendor declares about a plugin, in capabilities.toml beside it.
//
//   [plugin]
//   name = "foo"
//   determinism = "bitwise"    # optional: equal numbers give equal bits; or "varies", they need not
//   [[unsupported]]            # the device cannot, the plugin says TN_UNSUPPORTED
//   match = "stream.promise"   # a tag, or a glob over case names
//   reason = "the runtime has no host-signalled events"
//   permanent = true           # or expires = 2027-06-30: the day by which it will be closed
//   [[expected_failure]]       # a defect that is known and must shrink
//   match = "copy: odd *"
//   reason = "DMA needs 4-byte offsets until driver 5.2"
//   expires = 2026-12-31
//   [[tolerance]]              # results that are farther off than the rules allow
//   op = "exp"
//   dtype = "f16"              # the type that the case names
//   factor = 4                 # times what is usual; or ulp = 8: that much, where it is more
//   reason = "a table of 256 entries"
//   expires = 2026-12-31
//   [faults]                   # optional: faults.hpp
//   lost = "lost_at=4"
//
// Invariant: every entry needs a reason and its date, but a gap that says it is for good; an unknown key is an error, so a
// misspelt one never hides a failure, and an entry past its date excuses nothing.
#pragma once

#include "conformance/verdict.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace tenon::conform {

struct Declaration {
  std::string match{}, reason{};
  std::string expires{};  // "2026-12-31", the last good day; empty: for good
};

struct DeclaredTolerance {
  std::string op{}, dtype{};
  Slack slack{};
  std::string reason{}, expires{};
};

struct Capabilities {
  std::string file{};    // empty: the vendor declared nothing
  std::string digest{};  // SHA-256 of it
  std::string plugin{};
  std::vector<Declaration> unsupported{}, expected_failures{};
  std::vector<DeclaredTolerance> tolerances{};
  Determinism determinism = Determinism::undeclared;
  Faults faults{};
};

// Reads a file. TN_NOT_FOUND, TN_INVALID with place and remedy. [any-thread; may block; may fail]
Result<Capabilities> read_capabilities(const std::string& file);
// Reads the text of one; `file` is for messages. TN_INVALID. [any-thread; does not block; may fail]
Result<Capabilities> parse_capabilities(std::string_view text, const std::string& file);

// Turns what happened into a verdict; `today` is "2026-05-31". [any-thread; does not block; cannot fail]
void decide(CaseResult& result, const Capabilities& declared, const std::string& today);
// What is wrong with the declarations themselves, a sentence each: an entry past its date and, after a `complete` run,
// an entry that excuses nothing. A run with --verify fails for any of them. [any-thread; does not block; cannot fail]
std::vector<std::string> audit(const Capabilities& declared, const std::vector<CaseResult>& results,
                               const std::string& today, bool complete);

// What changes how cases are judged: tolerances that are still good. [any-thread; does not block; cannot fail]
Judging judging_of(const Capabilities& declared, const std::string& today);
// What became of a declared tolerance: how many cases it was about, how many passed by it alone, how many failed
// nevertheless.
struct ToleranceUse {
  const DeclaredTolerance* declared = nullptr;
  bool expired = false;
  size_t cases = 0, needed = 0, failed = 0;
};
std::vector<ToleranceUse> tolerance_uses(const Capabilities& declared, const std::vector<CaseResult>& results,
                                         const std::string& today);
// Tolerances whose cases passed and did not need them, a sentence each. [any-thread; does not block; cannot fail]
std::vector<std::string> idle_tolerances(const Capabilities& declared, const std::vector<CaseResult>& results,
                                         const std::string& today);
// "4 times the usual", "8 ULP". [any-thread; does not block; cannot fail]
std::string told(const Slack& slack);

// Whether `pattern` (*, ?, [a-z]) matches the whole of `text`. [any-thread; does not block; cannot fail]
bool glob(const std::string& pattern, std::string_view text);

}  // namespace tenon::conform
