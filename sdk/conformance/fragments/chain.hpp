// SPDX-License-Identifier: Apache-2.0
// chain.hpp: small fragments that a plugin runs, for cases about the interface: they name no op.
#pragma once

#include "conformance/fragments/group.hpp"
#include "conformance/ops/kernel.hpp"

namespace tenon::conform {

// `nodes` unary nodes of one op, each reading the one before, over dims. [any-thread; may throw bad_alloc]
Group chain_of(const Row& row, uint32_t dtype, size_t nodes, const std::vector<int64_t>& dims);
// The first such chain that the plugin says yes to; leaves the case as unsupported ("group.elementwise") where there is
// none. [case's thread; may fail]
Result<Group> find_chain(Context& t, const Device& device, size_t nodes, const std::vector<int64_t>& dims);
// A column and a row joined by a binary op, and what comes of it reduced to a column: `rows` × `columns` inner values of
// two inputs and one output that are small. The first that the plugin says yes to; "group.reduction" where there is none.
// [case's thread; may fail]
Result<Group> find_folded(Context& t, const Device& device, int64_t rows, int64_t columns);
// The same group over other sizes. [any-thread; may throw bad_alloc]
Group resized(Group folded, int64_t rows, int64_t columns);

}  // namespace tenon::conform
