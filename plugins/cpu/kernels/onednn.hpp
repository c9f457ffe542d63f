// SPDX-License-Identifier: Apache-2.0
// onednn.hpp: the one place that knows which oneDNN this is: 2.6 and 3.x behind one spelling.
//
// Invariant: no other file tests DNNL_VERSION_MAJOR.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

namespace tenon::cpu::onednn {

using dnnl::memory;

// The process's CPU engine; made at the first compile, never destroyed. [any-thread; may throw dnnl::error]
inline const dnnl::engine& engine() {
  static const auto& shared = *new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return shared;
}

// c = a × b with the caller's scratchpad. [any-thread; may block; may throw dnnl::error]
inline dnnl::matmul::primitive_desc matmul_description(const memory::desc& a, const memory::desc& b,
                                                       const memory::desc& c) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
#if DNNL_VERSION_MAJOR >= 3
  return dnnl::matmul::primitive_desc(engine(), a, b, c, attributes);
#else
  return dnnl::matmul::primitive_desc(dnnl::matmul::desc(a, b, c), attributes, engine());
#endif
}

}  // namespace tenon::cpu::onednn
