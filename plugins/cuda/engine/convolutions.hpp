// SPDX-License-Identifier: Apache-2.0
// convolutions.hpp: kernels that are a plan of cuDNN.
//
// Options: `cuda.cudnn`, the library ("off" for none), and those of leave.hpp.
// Invariant: it takes every fragment that has a convolution or a gradient of one, and no other.
#pragma once

#include "../kernel.hpp"

namespace tenon::cuda {

// [any-thread; does not block; may fail]
Result<std::unique_ptr<Engine>> make_convolutions(const std::shared_ptr<Gpu>& gpu, const Tools& tools);

// The library they and attention come from, "cuDNN 9.19.0"; or what to install. [any-thread; may block; may fail]
Result<std::string> convolutions_library(const Tools& tools);
// Whether convolutions are computed in this process at all; the log is told what to install where they are not.
// [any-thread; may block; cannot fail]
bool has_convolutions(const Tools& tools);

}  // namespace tenon::cuda
