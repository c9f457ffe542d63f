// SPDX-License-Identifier: Apache-2.0
// tile_loops.hpp: the loops under every tile op, as templates over one element's arithmetic.
//
// Invariant: a loop touches only its tile, so that the compiler may vectorise it; its arithmetic is a stateless functor.
#pragma once

#include "tile_ops.hpp"

namespace tenon::cpu {

// F: R operator()(T) const, and the same with more operands.
template <class R, class T, class F>
void map1(void* dst, const void* a, const void*, const void*, uint32_t n, const Immediate&) {
  auto* __restrict out = static_cast<R*>(dst);
  const auto* x = static_cast<const T*>(a);
  for (uint32_t i = 0; i < n; ++i) out[i] = F{}(x[i]);
}

template <class R, class T, class F>
void map2(void* dst, const void* a, const void* b, const void*, uint32_t n, const Immediate&) {
  auto* __restrict out = static_cast<R*>(dst);
  const auto* x = static_cast<const T*>(a);
  const auto* y = static_cast<const T*>(b);
  for (uint32_t i = 0; i < n; ++i) out[i] = F{}(x[i], y[i]);
}

template <class R, class T, class F>
void map3(void* dst, const void* a, const void* b, const void* c, uint32_t n, const Immediate&) {
  auto* __restrict out = static_cast<R*>(dst);
  const auto* x = static_cast<const T*>(a);
  const auto* y = static_cast<const T*>(b);
  const auto* z = static_cast<const T*>(c);
  for (uint32_t i = 0; i < n; ++i) out[i] = F{}(x[i], y[i], z[i]);
}

}  // namespace tenon::cpu
