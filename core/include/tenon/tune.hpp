// SPDX-License-Identifier: Apache-2.0
// tune.hpp: what a strategy leaves open is measured on this machine, and chosen.
//
//   if (strategy.auto_tune) {
//     auto tuned = TN_TRY(tenon::tune(step, strategy, {.device = "cpu"}));
//     std::fputs(tuned.explain().c_str(), stdout);
//     strategy = tuned.strategy;
//   }
//   auto runtime = TN_TRY(tenon::Runtime::open({.options = strategy.runtime()}));
//
// Invariant: an option that somebody has set is left alone. A setting is taken only where whole steps with it were faster than
// those without, by more than they vary; so what comes out is no slower than the strategy as it came, or with any one setting.
#pragma once

#include <tenon/comm.hpp>
#include <tenon/export.hpp>
#include <tenon/plan.hpp>
#include <tenon/runtime.hpp>
#include <tenon/strategy.hpp>
#include <tenon/training.hpp>

#include <string>
#include <vector>

namespace tenon {

struct TuneOptions {
  RuntimeOptions runtime{};    // each setting has a runtime of its own; the strategy's options are added
  std::string device = "cpu";  // as Runtime::device
  Rendezvous here{};           // of a job's rank: all measure together, and choose alike
  // Host memory for every input of a step; empty: made-up numbers, and zeros where they are integers.
  std::vector<Binding> batch{};
  uint32_t warm_ups = 4;      // steps that are not counted
  double patience_ms = 2000;  // of a comparison, which has five rounds at least
};

// What was tried, and what came of it.
struct Tuned {
  struct Trial {
    std::string setting{};  // "capture = false"
    std::string beside{};   // settings that both sides of the comparison had; "" for none
    double ms = 0;          // a step
    double ratio = 0;       // times faster than without; 0: it could not be measured
    bool is_taken = false;
    std::string why_not{};
  };
  Strategy strategy{};  // with what was taken, by "auto"
  double before_ms = 0, after_ms = 0;
  std::vector<Trial> trials{};

  // A line for each trial. [any-thread; does not block; cannot fail]
  TN_API std::string explain() const;
};

// Trains steps that nobody sees, with each setting in turn: threads of the CPU device, captured launches, memory order, padding, search for the fastest
// kernels. Needs room for two executors. Failures of the strategy as it came; a setting that fails says so in its
// trial. [one thread; blocks; may fail]
TN_API Result<Tuned> tune(const TrainingGraph& step, const Strategy& strategy,
                          const TuneOptions& options = {});

}  // namespace tenon
