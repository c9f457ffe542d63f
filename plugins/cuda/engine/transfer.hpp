// SPDX-License-Identifier: Apache-2.0
// transfer.hpp: copies and fills on a native stream.
//
// A host address that the driver knows (pinned) is copied asynchronously. Any other is ordinary memory: as a source it has
// been read when the call returns, as a destination it has been written.
// Invariant: the context is current in every call, and equal, non-empty ranges are all that comes here.
#pragma once

#include "memory.hpp"

#include <tenon/stream.h>

namespace tenon::cuda {

// True for a host address that the driver does not know. [any-thread; does not block; cannot fail]
bool is_pageable(const Context& context, const tn_span& span) noexcept;

// [stream's thread; may block; may fail]
Status copy(Gpu& gpu, CUstream stream, const tn_span& dst, const tn_span& src);
Status copy_box(Gpu& gpu, CUstream stream, const tn_span& dst, const tn_span& src,
                const tn_copy_shape& shape);
// [stream's thread; does not block; may fail]
Status fill(Gpu& gpu, CUstream stream, const tn_span& dst, uint64_t pattern, uint32_t pattern_bytes);

}  // namespace tenon::cuda
