// SPDX-License-Identifier: Apache-2.0
// fibers.hpp: the threads of a grid, run on one thread of the host.
//
// Invariant: it returns when every thread has ended, or with the reason why some never will.
#pragma once

#include "launch.hpp"

#include <string>

namespace fakecuda {

// Runs a grid, block by block; nothing, or what went wrong in it.
std::string run_grid(const Entry& entry, const void* parameters, Dim3 grid, Dim3 block);

const Services* services();

}  // namespace fakecuda
