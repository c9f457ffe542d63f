// SPDX-License-Identifier: Apache-2.0
// families.cpp: the rows.
#include "families.hpp"

#include <algorithm>

namespace tenon::cuda {

namespace {

constexpr Family rows[] = {
    {.name = "updates",
     .takes = takes_updates,
     .most_nodes = 4096,
     .most_bindings = max_places,
     .check = check_updates,
     .write = write_updates,
     .workspace = workspace_of_updates,
     .honoured = honoured_by_updates},
    {.name = "pool",
     .takes = takes_pool,
     .most_nodes = 1,
     .most_bindings = 4,
     .check = check_pool,
     .write = write_pool,
     .workspace = workspace_of_pool,
     .honoured = honours_nothing},
    {.name = "embedding_grad",
     .takes = takes_embedding_grad,
     .most_nodes = 1,
     .most_bindings = 4,
     .check = check_embedding_grad,
     .write = write_embedding_grad,
     .workspace = workspace_of_embedding_grad,
     .honoured = honours_nothing},
    {.name = "batch_norm",
     .takes = takes_batch_norm,
     .most_nodes = 64,
     .most_bindings = 64,
     .check = check_batch_norm,
     .write = write_batch_norm,
     .workspace = workspace_of_batch_norm,
     .honoured = honoured_by_batch_norm},
    {.name = "global_pool",
     .takes = takes_global_pool,
     .most_nodes = 128,
     .most_bindings = 64,
     .check = check_global_pool,
     .write = write_global_pool,
     .workspace = workspace_of_global_pool,
     .honoured = honoured_by_global_pool},
    {.name = "rows",
     .takes = takes_rows,
     .most_nodes = 64,
     .most_bindings = 64,
     .check = check_row_nodes,
     .write = write_rows,
     .workspace = workspace_of_rows,
     .honoured = honoured_by_groups},
    {.name = "groups",
     .takes = takes_all,
     .most_nodes = 128,
     .most_bindings = 64,
     .check = check_groups,
     .write = write_groups,
     .workspace = workspace_of_groups,
     .honoured = honoured_by_groups},
};

}  // namespace

const Family& family_of(const FragmentView& fragment) {
  return *std::ranges::find_if(rows, [&](const Family& row) { return row.takes(fragment); });
}

Result<Program> write_program(const FragmentView& fragment, const Target& target) {
  TN_TRY(check_fragment(fragment));
  return family_of(fragment).write(fragment, target);
}

uint64_t workspace_of(const FragmentView& fragment, const Target& target) {
  return family_of(fragment).workspace(fragment, target);
}

author::Honoured honoured_aliases(const FragmentView& fragment) {
  return family_of(fragment).honoured(fragment);
}

}  // namespace tenon::cuda
