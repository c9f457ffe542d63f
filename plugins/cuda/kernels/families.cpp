// SPDX-License-Identifier: Apache-2.0
// families.cpp: the rows.
#include "families.hpp"

#include <algorithm>

namespace tenon::cuda {

namespace {

constexpr Family rows[] = {
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

uint64_t honoured_aliases(const FragmentView& fragment) { return family_of(fragment).honoured(fragment); }

}  // namespace tenon::cuda
