// SPDX-License-Identifier: Apache-2.0
// run_launcher.hpp: one start of a job: its store, a keeper on each host, and what becomes of them.
//
// Invariant: when `run_once` returns, nothing that this start began is left on this machine, and every other host has been
// told to end its part, or has noticed that the connection is gone.
#pragma once

#include "run_output.hpp"
#include "run_plan.hpp"

#include <optional>

namespace tenon::tool::run {

struct Verdict {
  int code = 0;  // to exit with
  bool may_restart =
      false;            // a rank or a host failed; nobody asked for the end, and another start may do better
  std::string story{};  // empty: all ranks ended well
};

struct Launch {
  const Asked& asked;
  const Plan& plan;
  std::string own_program{};  // this one, to be started as keeper
  std::string address{};      // to serve the store on, with port 0
  std::optional<std::chrono::steady_clock::time_point> deadline{};
  uint32_t restart = 0;
};

// [main thread; blocks; an error of the store or the connection is a verdict, too]
Verdict run_once(const Launch& launch, Output& output, Signals& signals);

}  // namespace tenon::tool::run
