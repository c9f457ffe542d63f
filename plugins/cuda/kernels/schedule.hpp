// SPDX-License-Identifier: Apache-2.0
// schedule.hpp: a fragment cut into kernels, and where each tensor is while they run.
//
// Outputs of equal dims share a kernel. Reductions over the same axes of equal dims share one too, which also computes the
// outputs that are made of nothing but them; a reduced tensor that others need goes to memory first. Where rows are kept,
// reductions of reductions over the same axes and what is made of them element by element are one kernel, which has its rows
// at hand while it folds them again.
// Invariant: a kernel reads only what was there before it or what kernels before it stored.
#pragma once

#include <tenon/author/fragment_view.hpp>
#include <tenon/result.hpp>

#include <vector>

namespace tenon::cuda {

using author::FragmentView;
using author::TensorView;

// Where a tensor's elements can be read or written.
struct Home {
  enum class Kind { none, input, output, workspace, constant };
  Kind kind = Kind::none;
  uint32_t binding = 0;    // input and output
  uint64_t offset = 0;     // workspace
  bool read_only = false;  // no kernel of the fragment writes it
};

struct Group {
  std::vector<uint32_t> reductions{};  // nodes; none: elementwise
  std::vector<uint32_t> stores{};      // tensors
  // Of a kernel that keeps rows: its reductions in stages, each of which needs the ones before; where each ends.
  std::vector<size_t> stages{};
  // Of such a kernel: sums over its rows, which it may make the parts of while it has them; a group of their own, behind it.
  std::vector<uint32_t> columns{};
  bool keeps_rows() const noexcept { return !stages.empty(); }
};

// Where the blocks of one kernel left their parts of a group's sums for another to fold: in the workspace, those of a block side
// by side.
struct Parts {
  uint64_t slices = 0;  // none: there are no parts
  std::vector<uint64_t> offsets{};
};

struct Schedule {
  std::vector<Group> groups{};
  std::vector<Home> homes{};          // by tensor; of a group's stores, where they go
  std::vector<uint32_t> producers{};  // by tensor: its node, or TN_ABSENT
  uint64_t workspace_bytes = 0;

  // Room for `bytes` more, a multiple of 256 from the start.
  uint64_t reserve(uint64_t bytes);
  // Outputs bound to the same tensor get its elements too.
  std::vector<uint32_t> bindings_of(const FragmentView& fragment, uint32_t tensor) const;
};

// Every reduction apart from what is made of it; rows kept; or kept with the sums over them made on the way.
enum class Rows { apart, kept, summed };
// At most one kernel keeps rows.
Schedule make_schedule(const FragmentView& fragment, Rows rows = Rows::apart);

// Dims that a reduction folds, by input dim. [any-thread; does not block; cannot fail]
std::vector<bool> folded_dims(const FragmentView& fragment, const tn_node& node);
bool is_reduction(uint32_t op) noexcept;
// Unary, binary and ternary ops: element by element, broadcasting.
bool is_elementwise(uint32_t op) noexcept;

}  // namespace tenon::cuda
