// SPDX-License-Identifier: Apache-2.0
// begin.hpp: how every training sample begins: what its strategy leaves open is measured, and all ranks have the same weights.
#pragma once

#include "common/environment.hpp"

#include <tenon/tenon.hpp>

#include <cstdio>

namespace sample {

// Where `strategy` asks for it. [all ranks; blocks; may fail]
inline tenon::Status choose(tenon::Strategy& strategy, const tenon::TrainingGraph& step,
                            const tenon::Rendezvous& here) {
  if (!strategy.auto_tune) return {};
  const tenon::Tuned tuned = TN_TRY(tenon::tune(step, strategy, {.here = here}));
  if (here.rank == 0) std::printf("%s\n", tuned.explain().c_str());
  strategy = tuned.strategy;
  return {};
}

// [all ranks; blocks; may fail]
inline tenon::Result<tenon::Executor> begin(const tenon::TrainingGraph& step, tenon::Device& device,
                                            const tenon::Strategy& strategy,
                                            const tenon::Communicator& comm) {
  tenon::Executor out = TN_TRY(tenon::Executor::open(step, device, strategy, comm));
  TN_TRY(out.initialize(1));
  TN_TRY(out.share());
  return out;
}

// What stands at the start: every option with who set it, where this runs, and what was made of the step. By rank 0 only.
inline void introduce(const tenon::Strategy& strategy, const tenon::Rendezvous& here,
                      const tenon::Device& device, const tenon::Executor& executor) {
  if (here.rank != 0) return;
  std::printf("%s\n%s\n%s\n", strategy.explain().c_str(), environment(here, device).c_str(),
              executor.summary().c_str());
}

}  // namespace sample
