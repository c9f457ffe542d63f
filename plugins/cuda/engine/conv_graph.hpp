// SPDX-License-Identifier: Apache-2.0
// conv_graph.hpp: a convolution as a graph of cuDNN's.
//
// Invariant: sums are in f32, and so is what lies between the convolution and what follows it.
#pragma once

#include "cudnn_graph.hpp"

#include "../kernels/convolution.hpp"

namespace tenon::cuda {

// `alignment` is what every address will be a multiple of. [any-thread; may block; may fail]
Result<Descriptor> conv_graph(const Cudnn& library, const Convolution& convolution, int64_t alignment);

}  // namespace tenon::cuda
