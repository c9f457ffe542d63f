// SPDX-License-Identifier: Apache-2.0
// onednn_step.hpp: any primitive of oneDNN as a step.
//
// A primitive is immutable and shared; the memory objects that carry a run's addresses are not, so a few sets of them are
// kept for runs to borrow.
// Invariant: no exception of oneDNN leaves a step, and a run allocates only when more streams run one kernel at once than
// ever before.
#pragma once

#include "onednn.hpp"
#include "step.hpp"

#include <memory>

namespace tenon::cpu::onednn {

struct Operand {
  int argument;  // DNNL_ARG_…
  memory::desc desc;
  Place place;
};

// `what` is the op, for words; `engine` names the implementation. [may throw dnnl::error]
std::unique_ptr<Step> primitive_step(const dnnl::primitive& primitive, std::string what, std::string engine,
                                     std::vector<Operand> operands);

// The same elements in another layout: as a step, and right now. [may throw dnnl::error]
struct Reorder {
  std::unique_ptr<Step> step;
  uint64_t scratch_bytes;
};
Reorder reorder_step(const Operand& from, const Operand& to, const Place& scratch);
void reorder_now(const memory::desc& from_desc, const std::byte* from, const memory::desc& to_desc,
                 std::byte* to);

// "oneDNN refuses this …" from what it threw.
Status refused(const char* what, const dnnl::error& error);

}  // namespace tenon::cpu::onednn
