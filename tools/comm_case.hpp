// SPDX-License-Identifier: Apache-2.0
// comm_case.hpp: what a plan of communication is made from, as the command line has it: a step and a link.
//
// Invariant: `told` says where every time comes from: measured, listed, or predicted by which model.
#pragma once

#include <tenon/fusion.hpp>
#include <tenon/overlap.hpp>

#include <string>

namespace tenon::tool {

struct CommStep {
  StepProfile profile{};
  std::string told{};
};

// The step that `text` lists, a line each: a gradient as NAME TYPE ELEMENTS [READY_MS [NEEDED_MS]], or a time as forward MS,
// backward MS, update MS; '#' begins a comment. TN_INVALID with the line. [any-thread; does not block; may fail]
Result<CommStep> listed_step(const std::string& text, const std::string& file);

// The step of a training graph that is cut as `cut` says: gradients are what its optimizer updates read, times those that the
// cut predicts. TN_INVALID for a graph without updates. [any-thread; does not block; may fail]
Result<CommStep> step_of(const Graph& graph, const FusionCut& cut, const std::string& device);

// A ring of `ranks` by arithmetic: so long to tell a neighbour anything, so fast.
struct Link {
  uint32_t ranks = 8;
  double gbit = 10, latency_us = 30;
};

struct CommLink {
  CommTarget target{};
  std::string told{};
};

// [any-thread; does not block; cannot fail]
CommLink modelled(const Link& link);
// The tables that `text` lists, a line each: COLLECTIVE[.ROUTE] BYTES US, as "all_reduce.leaders 65536 140".
// TN_INVALID with the line, or when no all_reduce is listed. [any-thread; does not block; may fail]
Result<CommLink> measured(const Link& link, const std::string& text, const std::string& file);

}  // namespace tenon::tool
