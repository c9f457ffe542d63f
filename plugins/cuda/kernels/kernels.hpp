// SPDX-License-Identifier: Apache-2.0
// kernels.hpp: the three kinds of kernel a group becomes.
//
// Invariant: both entries of a step compute the same elements; which of them runs is a matter of alignment.
#pragma once

#include "body.hpp"

namespace tenon::cuda {

// The arrays of the fragment's constants, which its kernels read.
void write_constants(const Frame& frame, Source& out);
// The whole program of a schedule. (groups.cpp)
Result<Program> write_schedule(const FragmentView& fragment, Schedule schedule, const Target& target);

// Adds a group's entries to `source` and its steps to `steps`; `number` makes their names.
void write_elementwise(const Frame& frame, Trace& trace, const Target& target, uint32_t number,
                       Source& source, std::vector<Step>& steps);
// The same; parts of split reductions take their room in `schedule`'s workspace.
void write_reduction(const Frame& frame, Schedule& schedule, const Group& group, Trace& trace,
                     const Target& target, uint32_t number, Source& source, std::vector<Step>& steps);

// The step that folds the parts which a kernel that kept rows left of a group's sums.
Status write_column_sums(const Frame& frame, const Group& group, const Parts& parts, const Target& target,
                         uint32_t number, Source& source, std::vector<Step>& steps);
// The same of a group that keeps rows, and what it left of its sums over rows. TN_UNSUPPORTED where one kernel cannot, or is the
// slower way.
Result<Parts> write_kept_rows(const Frame& frame, Schedule& schedule, const Group& group,
                              const Target& target, uint32_t number, Source& source,
                              std::vector<Step>& steps);

}  // namespace tenon::cuda
