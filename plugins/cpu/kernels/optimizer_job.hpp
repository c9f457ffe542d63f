// SPDX-License-Identifier: Apache-2.0
// optimizer_job.hpp: one optimizer node as a job: from operands of any float type and strides to the loop of its op.
//
// Invariant: where found_inf is raised nothing changes: outputs become their inputs, and those in place are not touched,
// but that a weight beside a master is the master rounded.
#pragma once

#include "optimizer_step.hpp"
#include "view.hpp"

#include <tenon/author/op_update.hpp>

namespace tenon::cpu {

// A tensor that may be left out: its place is then of kind none.
struct UpdateOperand {
  Place place{};
  View view{};
  bool there() const noexcept { return place.kind != Place::Kind::none; }
};

struct UpdateOperands {
  UpdateOperand weight, gradient, state[2], master;
  UpdateOperand next_weight, next_state[2], next_master, next_gradient;
  Place rate, step, found_inf, inverse_scale;  // rank-0 f32
  Place gradient_scale;                        // of a folded gradient: what it is divided by first
};

// The job of a node of family OPTIMIZER. [any-thread; does not block; may throw bad_alloc]
std::unique_ptr<Job> optimizer_job(const tn_node& node, const UpdateOperands& operands);

}  // namespace tenon::cpu
