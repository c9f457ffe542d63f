// SPDX-License-Identifier: Apache-2.0
// diagnosis.hpp: which gradient of a bad step was the first that is not finite.
//
// Forward and backward once more, with a look at each gradient before it leaves this rank. Invariant: it reads what the step
// read, which a bad step has not changed, and changes nothing itself; no other rank takes part.
#pragma once

#include "plan/state.hpp"

#include <tenon/training.hpp>

#include <functional>

namespace tenon::train {

class Diagnosis {
 public:
  // Of a step with one verdict on its gradients, as `plan` has it. [one thread; may block; may fail]
  static Result<Diagnosis> open(const TrainingGraph& step, const Plan& plan, Device& device,
                                const PlanOptions& options);

  // "'fc1.w' is the first of 3 gradients that are not finite"; `span_of` tells where an input or a parameter lies.
  // [one thread; blocks; may fail]
  using SpanOf = std::function<tn_span(const std::string&)>;
  Result<std::string> run(Device& device, Stream& stream, const SpanOf& span_of) const;

 private:
  struct Look {
    std::string param, output;
  };
  Plan plan_{};
  std::vector<Look> looks_{};  // in the order in which gradients are made
};

}  // namespace tenon::train
