// SPDX-License-Identifier: Apache-2.0
// generated.hpp: kernels whose source is written here (kernels/) and compiled by NVRTC.
//
// Invariant: it takes every fragment, so it is asked last.
#pragma once

#include "../kernel.hpp"

namespace tenon::cuda {

// [any-thread; does not block; cannot fail]
Result<std::unique_ptr<Engine>> make_generator(const std::shared_ptr<Gpu>& gpu, const Tools& tools);

}  // namespace tenon::cuda
