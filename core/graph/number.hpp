// SPDX-License-Identifier: Apache-2.0
// number.hpp: one element of memory as a number, and back.
//
// Invariant: writing rounds to the nearest that the type holds; whole types truncate and stop at their ends.
#pragma once

#include <tenon/types.hpp>

#include <cstddef>

namespace tenon::graph {

// The element at `from`; 0 for a type without one number an element (sub-byte types). [any-thread; cannot fail]
double read_element(DType dtype, const std::byte* from) noexcept;
void write_element(DType dtype, double number, std::byte* to) noexcept;

}  // namespace tenon::graph
