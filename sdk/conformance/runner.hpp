// SPDX-License-Identifier: Apache-2.0
// runner.hpp: one conformance run: which cases, in which processes, with which verdicts.
//
// Invariant: the runner never opens the plugin in its own process; every selected case ends with a verdict whatever the
// plugin does, and a run that executed no case fails.
#pragma once

#include "conformance/capabilities.hpp"
#include "conformance/case.hpp"
#include "conformance/describe.hpp"
#include "conformance/figure.hpp"
#include "conformance/verdict.hpp"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tenon::conform {

inline constexpr double default_deadline_s = 30;
inline constexpr double quick_s = 60;  // what a run with --quick is meant to stay below

struct Options {
  std::string plugin{};        // the library's file
  std::string capabilities{};  // empty: the file beside the library, if there is one
  // The command that becomes `serve(3)`: {"/proc/self/exe", "conform", "--worker"}.
  std::vector<std::string> worker{};
  std::string program = "tenon";       // as the user called it: reproduce lines begin with it
  int level = -1;                      // levels 0 … level; negative: all there are
  std::vector<std::string> filters{};  // globs or parts of names; empty: all
  bool quick = false, verify = false, resume = false, perf = false;
  uint64_t seed = 1;
  uint32_t sample = 1;             // one in so many cases, drawn by the seed; level 0 always whole
  uint32_t repeat = 1, round = 0;  // rounds `round` … round + repeat - 1
  uint32_t jobs = 1, together = 1, device = 0;   // processes at once; groups of cases to a process
  double deadline_s = default_deadline_s;        // of one case
  std::map<std::string, std::string> options{};  // for the plugin: "threads" → "2"
  Judging judging{};                             // of the vendor's declarations; `run` fills it in
  // What a report says about where it was made: "cpu" → "…". It changes nothing.
  std::vector<std::pair<std::string, std::string>> environment{};
};

struct Report {
  Options options{};
  std::string digest{};  // SHA-256 of the library
  std::optional<Description> plugin{};
  std::string trouble{};  // why the plugin could not be described
  Capabilities declared{};
  std::vector<std::string> complaints{};  // about the declarations: failures under --verify
  std::vector<std::string> remarks{};     // about them, too: warnings
  std::vector<CaseResult> results{};
  Performance performance{};
  size_t resumed = 0;   // results taken from an earlier run
  std::string began{};  // "2026-05-31T12:00:00Z"
  double seconds = 0;

  // The day it began, by which declarations expire.
  std::string today() const { return began.substr(0, 10); }
  size_t count(Verdict verdict) const noexcept;
  // Cases whose body ran, whatever came of it.
  size_t executed() const noexcept;
  bool passed() const noexcept;
};

// What happens while it runs. Each may be empty. Called on the runner's thread.
struct Watch {
  std::function<void(const Report& so_far, size_t total)> started{};
  std::function<void(const std::string& name)> began{};
  std::function<void(const CaseResult& result)> finished{};
  std::function<void(const std::string& name)> measured{};
};

// "sim" of "/x/tenon-sim.so". [any-thread; does not block; may throw bad_alloc]
std::string name_in(const std::string& library);
// The cases that `options` select, in order. [any-thread; does not block; cannot fail]
std::vector<const Case*> select(const Options& options);
// The options for the plugin that the environment gives: "TENON_SIM_PROFILE" is `profile` of tenon-sim.so. What was asked
// for wins. [any-thread; does not block; may throw bad_alloc]
void add_environment(Options& options, const char* const* environment);
// Runs. TN_NOT_FOUND (no such file), TN_INVALID (a wrong capabilities file, a filter that selects nothing).
// [one thread; blocks; may fail]
Result<Report> run(const Options& options, const Watch& watch = {});
// The command that repeats one case of `report`. [any-thread; does not block; cannot fail]
std::string reproduce_line(const Report& report, const CaseResult& result);
// Describes a plugin in a process of its own; opens its devices. The plugin's error, or how the process ended.
// [one thread; blocks; may fail]
Result<Description> describe_apart(const Options& options);

}  // namespace tenon::conform
