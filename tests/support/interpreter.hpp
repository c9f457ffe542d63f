// SPDX-License-Identifier: Apache-2.0
// interpreter.hpp: runs a graph in double precision, op by op, with the conformance kit's references.
//
// Invariant: `run` never rounds a float, not even in a cast, so that slopes can be taken by small differences.
#pragma once

#include "conformance/ops/trial.hpp"

#include <tenon/graph.hpp>

#include <map>
#include <string>

namespace tenon::test {

using Tensors = std::map<uint32_t, conform::Tensor>;  // by value

// A tensor of `spec` from numbers, for floats and integers alike.
conform::Tensor tensor_of(const TensorSpec& spec, const std::vector<double>& numbers);
// Every value of the graph, given its inputs and parameters; the values of a few may be given instead of being computed.
Tensors run(const Graph& graph, const Tensors& given);
// The same with every value rounded to its type, the given ones too, as a device would have them at best.
Tensors run_rounded(const Graph& graph, const Tensors& given);

}  // namespace tenon::test
