// SPDX-License-Identifier: Apache-2.0
// matmul.hpp: what `supports` has to know about matrix products without building one.
//
// Invariant: says the type that build_matmul will compute in.
#pragma once

#include <cstdint>

namespace tenon::cpu {

// The type in which products of `dtype` are computed here. [any-thread; does not block; cannot fail]
uint32_t matmul_dtype(uint32_t dtype) noexcept;

}  // namespace tenon::cpu
