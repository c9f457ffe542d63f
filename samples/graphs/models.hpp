// SPDX-License-Identifier: Apache-2.0
// models.hpp: the models of this sample: each a function from sizes to a graph of one whole training step.
#pragma once

#include <tenon/graph.hpp>

// ResNet-50 on images of 224 × 224: forward, backward and a momentum update of each of its 161 parameters.
tenon::Result<tenon::Graph> resnet50(int64_t batch);
// A decoder of `layers` blocks: attention, layer norm, gelu; forward, backward and an Adam update of each parameter.
tenon::Result<tenon::Graph> transformer(int64_t batch, int64_t length, int64_t width, int64_t heads,
                                        int64_t layers, int64_t words);
