// SPDX-License-Identifier: Apache-2.0
// norm.hpp: batch, layer and RMS normalisation and their gradients, each with the elementwise nodes around it.
//
// Invariant: halves are computed in f32; statistics leave in the dtype that the fragment gives them; results do not depend
// on the number of threads.
#pragma once

#include "fused.hpp"

namespace tenon::cpu {

// Adds the steps of the nodes [first, end), of which the one that is not elementwise is a normalisation.
// [any-thread; may block; may fail]
Status build_norm(Builder& builder, uint32_t first, uint32_t end, unsigned threads);

// Family::in_place: of the whole shape, and the statistics that batch_norm_train carries on, each of which is read once, by who
// writes it: a node that reads them too is of another shape, and so of another step.
bool norm_in_place(const tn_node& node, uint32_t input, uint32_t output);

// A row norm's rows, and the elements of one: of the last `axes` dims.
uint64_t row_count(TensorView x, const tn_node& node);
uint64_t row_length(TensorView x, const tn_node& node);

// Its parts, by the kernel's op.
Status build_batch_norm(Builder& builder, const KernelGroup& group);
Status build_batch_norm_grad(Builder& builder, const KernelGroup& group);
Status build_row_norm(Builder& builder, const KernelGroup& group, unsigned threads);
Status build_row_norm_grad(Builder& builder, const KernelGroup& group);

}  // namespace tenon::cpu
