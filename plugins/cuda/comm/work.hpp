// SPDX-License-Identifier: Apache-2.0
// work.hpp: what one member does in an exchange: the kernel that moves or reduces its share.
//
// Who gets something moved reads it from where the others hold it. Of a reduction every member works on a slice, from all to all
// who get it; of reduce_scatter, on its own block.
// Invariant: a member writes what no other member reads or writes in the same exchange.
#pragma once

#include "board.hpp"
#include "strand.hpp"

namespace tenon::cuda::comm {

// Where a part of this rank was put.
struct Turn {
  Lane* lane = nullptr;
  uint32_t member = 0;
  uint64_t index = 0;
};

// Whether the member enqueues a kernel at all.
bool has_work(const Part& part) noexcept;
// Enqueues it, behind the waits for the others. `function`: of the reduction, or to pull.
Status enqueue_work(const Strand& strand, const Part& part, const Turn& turn, CUfunction function);

}  // namespace tenon::cuda::comm
