// SPDX-License-Identifier: Apache-2.0
// update_shape.hpp: how tensors of equal dims lie beside each other: the fewest dims that serve all of them.
//
// Invariant: element n of the shape is the same element of every operand, though not the n-th in their logical order.
#pragma once

#include <tenon/author/fragment_view.hpp>

#include <span>
#include <vector>

namespace tenon::cuda {

class UpdateShape {
 public:
  // Operands of equal dims; the last is written, so that no two of its elements share a place.
  explicit UpdateShape(std::span<const author::TensorView> operands);

  // Whether element n is the n-th in memory, of every operand.
  bool flat() const noexcept;
  // Its row as offsets_of (update.cuh) reads it: the rank, the dims, and the strides of each operand.
  void append_to(std::vector<uint64_t>& out) const;

 private:
  struct Dim {
    uint64_t extent = 1;
    std::vector<uint64_t> strides{};  // by operand
  };
  static bool continues(const Dim& outer, const Dim& inner);

  std::vector<Dim> dims_{};  // outermost first
};

}  // namespace tenon::cuda
