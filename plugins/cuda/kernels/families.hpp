// SPDX-License-Identifier: Apache-2.0
// families.hpp: who writes which fragments: one row for each family of ops, and what it knows of them.
//
// A fragment belongs to the first row that takes it, to be served or to be refused by it alone; the last row takes all. An op
// gets kernels of its own by a row here and a file of its family.
// Invariant: what a row's check passes, the same row writes; nothing here depends on a driver, a device or a library.
#pragma once

#include "program.hpp"

namespace tenon::cuda {

using author::FragmentView;

struct Family {
  std::string_view name;
  // By ops alone: nothing else of the fragment has been looked at.
  bool (*takes)(const FragmentView&);
  uint32_t most_nodes;
  uint32_t most_bindings;
  // What ops.def allows and is not written; the fragment keeps every rule of ops.def.
  Status (*check)(const FragmentView&);
  Result<Program> (*write)(const FragmentView&, const Target&);
  uint64_t (*workspace)(const FragmentView&, const Target&);
  author::Honoured (*honoured)(const FragmentView&);
};

// [any-thread; does not block; cannot fail]
const Family& family_of(const FragmentView& fragment);

// The rows' functions, each in the file of its family.

// update.cpp: optimizers and loss scaling, many tensors in one launch.
bool takes_updates(const FragmentView& fragment);
Status check_updates(const FragmentView& fragment);
Result<Program> write_updates(const FragmentView& fragment, const Target& target);
uint64_t workspace_of_updates(const FragmentView& fragment, const Target& target);
author::Honoured honoured_by_updates(const FragmentView& fragment);

// rows.cpp: softmax, losses, layer and RMS norm, among what the groups take.
bool takes_rows(const FragmentView& fragment);
Status check_row_nodes(const FragmentView& fragment);
Result<Program> write_rows(const FragmentView& fragment, const Target& target);
uint64_t workspace_of_rows(const FragmentView& fragment, const Target& target);

// groups.cpp, forecast.cpp: elementwise nodes around reductions, and what moves elements.
bool takes_all(const FragmentView& fragment);
Status check_groups(const FragmentView& fragment);
Status check_group_node(const FragmentView& fragment, uint32_t node);
Result<Program> write_groups(const FragmentView& fragment, const Target& target);
uint64_t workspace_of_groups(const FragmentView& fragment, const Target& target);
author::Honoured honoured_by_groups(const FragmentView& fragment);

// pool.cpp, pool_grad.cpp: windows over images.
bool takes_pool(const FragmentView& fragment);
Status check_pool(const FragmentView& fragment);
Result<Program> write_pool(const FragmentView& fragment, const Target& target);
uint64_t workspace_of_pool(const FragmentView& fragment, const Target& target);

// global_pool.cpp: a mean over images, among what groups take.
bool takes_global_pool(const FragmentView& fragment);
Status check_global_pool(const FragmentView& fragment);
Result<Program> write_global_pool(const FragmentView& fragment, const Target& target);
uint64_t workspace_of_global_pool(const FragmentView& fragment, const Target& target);
author::Honoured honoured_by_global_pool(const FragmentView& fragment);

// embedding_grad.cpp: sums by index.
bool takes_embedding_grad(const FragmentView& fragment);
Status check_embedding_grad(const FragmentView& fragment);
Result<Program> write_embedding_grad(const FragmentView& fragment, const Target& target);
uint64_t workspace_of_embedding_grad(const FragmentView& fragment, const Target& target);

// batch_norm.cpp: normalisations by channel, with the elementwise nodes around them.
bool takes_batch_norm(const FragmentView& fragment);
Status check_batch_norm(const FragmentView& fragment);
Result<Program> write_batch_norm(const FragmentView& fragment, const Target& target);
uint64_t workspace_of_batch_norm(const FragmentView& fragment, const Target& target);
author::Honoured honoured_by_batch_norm(const FragmentView& fragment);

// Whether two tensors of equal addresses would have every element in the same place.
bool same_places(author::TensorView a, author::TensorView b);
// Of families that keep nothing in place.
inline author::Honoured honours_nothing(const FragmentView&) { return {}; }

}  // namespace tenon::cuda
