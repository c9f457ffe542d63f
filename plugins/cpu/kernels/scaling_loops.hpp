// SPDX-License-Identifier: Apache-2.0
// scaling_loops.hpp: the passes of loss scaling over a row of gradients.
//
// Invariant: a quotient is the exact one rounded once to the type computed in (f32, f64 for f64), and once more to a half:
// for a scale that is a power of two by a product, which then has the same bits.
#pragma once

#include <cstdint>

namespace tenon::cpu {

// out[i] = g[i] / scale. `out` may be g, or null: then nothing is written. Whether every g[i] is finite.
using UnscaleRow = bool (*)(const void* g, void* out, uint64_t n, float scale);

// For rows of a float type. [any-thread; does not block; cannot fail]
UnscaleRow unscale_row(uint32_t dtype) noexcept;

// 1/scale where multiplying by it is as good as dividing, bit for bit, in f32 (and so in f64); else 0.
// [any-thread; does not block; cannot fail]
float exact_inverse(float scale) noexcept;

}  // namespace tenon::cpu
