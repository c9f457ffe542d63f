// SPDX-License-Identifier: Apache-2.0
// products.hpp: kernels that are a call of cuBLASLt.
//
// Options: `cuda.cublaslt`, the library ("off" for none), and those of leave.hpp.
// Invariant: it takes every fragment that has a matmul, and no other.
#pragma once

#include "../kernel.hpp"

namespace tenon::cuda {

// [any-thread; does not block; may fail]
Result<std::unique_ptr<Engine>> make_products(const std::shared_ptr<Gpu>& gpu, const Tools& tools);

// The library they come from, "cuBLASLt 12.8.4"; or what to install. [any-thread; may block; may fail]
Result<std::string> products_library(const Gpu& gpu, const Tools& tools);
// Whether products are computed in this process at all; the log is told what to install where they are not.
// [any-thread; may block; cannot fail]
bool has_products(const Gpu& gpu, const Tools& tools);

}  // namespace tenon::cuda
