// SPDX-License-Identifier: Apache-2.0
// network.hpp: whole graphs: networks as a framework would hand them over, from choices alone.
//
// Invariant: whatever the choices are, the graph is legal, and its numbers stay far from the ends of their type, so that most
// of what it gives can be told.
#pragma once

#include "conformance/fragments/group.hpp"
#include "conformance/ops/choices.hpp"

namespace tenon::conform {

// Two layers with an activation, a loss, all gradients, and the update of all four parameters by one optimizer.
// [any-thread; may throw bad_alloc]
std::optional<Group> draw_training_step(Choices& choices, uint64_t budget);
// Convolution, batch norm that renews its statistics, activation, pooling, a product, softmax.
std::optional<Group> draw_image_network(Choices& choices, uint64_t budget);
// An embedding, layer norm, attention over heads with a residual, a gated product with another.
std::optional<Group> draw_decoder_block(Choices& choices, uint64_t budget);

}  // namespace tenon::conform
