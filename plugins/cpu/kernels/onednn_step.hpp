// SPDX-License-Identifier: Apache-2.0
// onednn_step.hpp: any primitive of oneDNN as a step.
//
// A primitive is immutable and shared; the memory objects that carry a run's addresses are not, so a few sets of them are
// kept for runs to borrow.
// Invariant: no exception of oneDNN leaves a step, and a run allocates only when more streams run one kernel at once than
// ever before.
#pragma once

#include "builder.hpp"
#include "onednn.hpp"

namespace tenon::cpu::onednn {

struct Operand {
  int argument;  // DNNL_ARG_…
  memory::desc desc;
  Place place;
};

// `what` is the op, for words; `engine` names the implementation. [may throw dnnl::error]
std::unique_ptr<Step> primitive_step(const dnnl::primitive& primitive, std::string what, std::string engine,
                                     std::vector<Operand> operands);

// The same elements in another layout. [may throw dnnl::error]
std::unique_ptr<Step> reorder_step(const Operand& from, const Operand& to, Builder& builder);
// An input in the layout that a kernel asks for: as it lies, or reordered by a step of each run, or now where it is
// constant. [may throw dnnl::error]
Operand brought(const Operand& own, const memory::desc& asked, Builder& builder, Steps& steps);

// "oneDNN refuses this …" from what it threw.
Status refused(const char* what, const dnnl::error& error);

}  // namespace tenon::cpu::onednn
