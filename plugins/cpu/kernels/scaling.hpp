// SPDX-License-Identifier: Apache-2.0
// scaling.hpp: loss scaling as jobs of an update step: check_finite_and_unscale and update_loss_scaling.
//
// Invariant: found_inf is complete when the stage that looked is, and no later.
#pragma once

#include "optimizer_step.hpp"
#include "view.hpp"

namespace tenon::cpu {

// Clears found_inf before its stage looks.
std::unique_ptr<Job> clear_found_inf(const Place& found_inf);

// One gradient of check_finite_and_unscale: raises found_inf where it is not finite, and writes it divided by the scale
// where `unscaled` is a place. `out` may be the gradient itself.
struct UnscaleOperands {
  Place gradient, unscaled, scale, found_inf;
  View gradient_view, unscaled_view;
};
std::unique_ptr<Job> unscale_job(const UnscaleOperands& operands);

// update_loss_scaling: found_inf, scale, good, bad → scale, good, bad. A place of kind none is not written.
struct LossScaleOperands {
  Place found_inf, scale, good, bad;
  Place next_scale, next_good, next_bad;
  int64_t decrease_after, increase_after;
  double decrease, increase;
};
std::unique_ptr<Job> loss_scale_job(const LossScaleOperands& operands);

}  // namespace tenon::cpu
