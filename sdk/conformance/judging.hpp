// SPDX-License-Identifier: Apache-2.0
// judging.hpp: what a vendor declares that changes how results are judged: how far they may be off, whether they repeat;
// and what trouble can be ordered.
//
// Invariant: without a declaration the rules of ops/compare.hpp hold as they are; with one, its use shows in the report.
#pragma once

#include "conformance/faults.hpp"

#include <cstdint>
#include <map>
#include <string>

namespace tenon::conform {

// An element may be off by `factor` times the usual, or by `ulps` of its type, whichever is more.
struct Slack {
  double factor = 1, ulps = 0;
  bool operator==(const Slack&) const = default;
};

// Whether two runs of one kernel on the same numbers give the same bits.
enum class Determinism {
  undeclared,  // a difference is a warning
  bitwise,     // they do: a difference is a failure
  varies,      // they need not
};
// "undeclared", "bitwise", "varies". [any-thread; does not block; cannot fail]
constexpr const char* name(Determinism determinism) noexcept {
  return determinism == Determinism::bitwise  ? "bitwise"
         : determinism == Determinism::varies ? "varies"
                                              : "undeclared";
}

struct Judging {
  std::map<std::string, Slack> slack{};  // "exp.f16" →
  Determinism determinism = Determinism::undeclared;
  Faults faults{};  // that can be ordered
  bool operator==(const Judging&) const = default;
};

// How often a case needed its slack: elements that the usual rules refuse, and the farthest of them in ULP of its type.
struct Eased {
  uint64_t elements = 0;
  double ulps = 0, usual_ulps = 0;
};

}  // namespace tenon::conform
