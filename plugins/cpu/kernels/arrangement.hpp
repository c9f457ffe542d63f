// SPDX-License-Identifier: Apache-2.0
// arrangement.hpp: a step's tensors brought to one order in memory, and back.
//
// A kernel that walks memory wants every tensor of the whole shape dense in the order that it walks, and parameters dense
// in the type that it computes in. What lies so is used in place; the rest is copied to the workspace before the step, or
// from there after it.
// Invariant: element i of every arranged tensor is at index i of its place.
#pragma once

#include "builder.hpp"

namespace tenon::cpu {

class Arrangement {
 public:
  // Dims in the order of memory, outermost first.
  Arrangement(Builder& builder, std::vector<uint32_t> order) : builder_(builder), order_(std::move(order)) {}

  // Whether the tensor is dense in this order as it lies.
  static bool lies(TensorView tensor, std::span<const uint32_t> order);

  // A tensor of the whole shape, as `dtype`. [may fail]
  Result<Place> input(uint32_t tensor, uint32_t dtype);
  Place output(uint32_t tensor, uint32_t dtype);
  // A parameter or statistic: any shape, its elements in logical order, as `dtype`. TN_ABSENT has no place. [may fail]
  Result<Place> parameter(uint32_t tensor, uint32_t dtype);
  Place statistic(uint32_t tensor, uint32_t dtype);

  // After the step: adds the copies that bring outputs to where they belong. [may fail]
  Status finish();

 private:
  struct Late {
    Place from, to;
    View from_view, to_view;
  };

  Builder& builder_;
  std::vector<uint32_t> order_;
  std::vector<std::pair<uint32_t, Place>> known_;  // tensors that are arranged already
  std::vector<Late> late_;
};

}  // namespace tenon::cpu
