// SPDX-License-Identifier: Apache-2.0
// code.hpp: the compiled reductions of one type on one device, shared by all communicators that use them.
//
// Invariant: a type is compiled once for the life of its device.
#pragma once

#include "../engine/compiler.hpp"
#include "../engine/gpu.hpp"

namespace tenon::cuda::comm {

// A reduction that there is (reduces_ranks). TN_NOT_FOUND without NVRTC. [any-thread; may block; may fail]
Result<CUfunction> find_reduction(Gpu& gpu, const Compiler& compiler, uint32_t dtype, uint32_t reduce);

}  // namespace tenon::cuda::comm
