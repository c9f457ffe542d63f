// SPDX-License-Identifier: Apache-2.0
// expression.hpp: an op as a C++ expression over its arguments.
#pragma once

#include <tenon/author/fragment_view.hpp>

#include <span>
#include <string>

namespace tenon::cuda {

// Whether a node is one element of its output made of one element of each input. What only moves elements is not.
bool is_computed(uint32_t op) noexcept;

// Every op is the function of math.cuh (or random.cuh) that has its name; its arguments are `arguments`, of dtype `from`,
// then its attributes in their order; halves are rounded once behind it, unless the result needs none.
std::string expression(const tn_node& node, std::span<const std::string> arguments, uint32_t from,
                       uint32_t to);

// How reduction `op` folds: a type of fold.cuh.
const char* fold_of(uint32_t op) noexcept;
// The folded part `part` of `count` elements of dtype `from` as the reduction's result.
std::string folded(uint32_t op, const std::string& part, uint32_t from, int64_t count);

}  // namespace tenon::cuda
