// SPDX-License-Identifier: Apache-2.0
// honest_kernel.hpp: the honest plugin's kernels: five ops over strided tensors, one element after another, alone and as
// fragments of several nodes.
//
// A wrong plugin exchanges a function of `arithmetic()`, or of `fused_arithmetic()` to be wrong in fragments of several
// nodes only; only C headers are needed for that.
// Invariant: with nothing exchanged, what `supports` takes is computed by ops.def.
#pragma once

#include <tenon/kernel.h>

namespace honest {

// What kernels are made of.
struct Arithmetic {
  float (*add)(float a, float b);
  float (*maximum)(float a, float b);
  int32_t (*divide)(int32_t a, int32_t b);
  // Σ of n floats, each `step` elements after the last.
  float (*sum)(const float* first, int64_t n, int64_t step);
  // The offset in elements of element `index` (in logical order) of a tensor of these dims.
  int64_t (*place)(uint32_t rank, const int64_t* dims, const int64_t* strides, uint64_t index);
  // How many elements a node writes of an output that has n.
  uint64_t (*count)(uint64_t n);
  // Comes before the first element is read.
  void (*prepare)(float* output, uint64_t n);
  // What a node computes whose op is `op`.
  uint32_t (*op)(uint32_t op, bool last);
  // What is kept of an element of an inner value.
  float (*inner)(float x);
};

// Those of this process. Changed before the plugin is entered, if at all.
Arithmetic& arithmetic();
// Of fragments of several nodes.
Arithmetic& fused_arithmetic();

}  // namespace honest
