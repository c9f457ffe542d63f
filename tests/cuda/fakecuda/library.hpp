// SPDX-License-Identifier: Apache-2.0
// library.hpp: the door through which stand-ins of NVIDIA's libraries put work on a stream.
//
// They are libraries of their own and open this one by name, as the real ones do.
// Invariant: such work is a task like any other: it keeps its place in the stream, is captured, and touches only memory that
// is there, when it is enqueued and when it runs.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <functional>

namespace fakecuda {

struct Range {
  CUdeviceptr at;
  size_t bytes;
};

// fakecuda_enqueue: CUDA_ERROR_INVALID_VALUE for a range that the device does not reach.
using EnqueueFn = CUresult (*)(CUstream stream, const Range* ranges, size_t count,
                               const std::function<void()>* run);

}  // namespace fakecuda
