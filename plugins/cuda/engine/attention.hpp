// SPDX-License-Identifier: Apache-2.0
// attention.hpp: kernels that are a plan of cuDNN's for attention or its gradient.
//
// Options: `cuda.cudnn`, the library ("off" for none).
// Invariant: it takes every fragment that has attention or a gradient of it, and no other.
#pragma once

#include "../kernel.hpp"

namespace tenon::cuda {

// [any-thread; does not block; may fail]
Result<std::unique_ptr<Engine>> make_attention(const std::shared_ptr<Gpu>& gpu, const Tools& tools);

}  // namespace tenon::cuda
