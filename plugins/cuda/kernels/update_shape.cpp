// SPDX-License-Identifier: Apache-2.0
// update_shape.cpp: sorting dims by their strides, and joining those without a gap between them.
#include "update_shape.hpp"

#include <algorithm>

namespace tenon::cuda {

UpdateShape::UpdateShape(std::span<const author::TensorView> operands) {
  std::vector<Dim> sorted;
  for (uint32_t d = 0; d < operands[0].rank(); ++d) {
    Dim dim{.extent = static_cast<uint64_t>(operands[0].dims()[d])};
    for (const author::TensorView& one : operands)
      dim.strides.push_back(static_cast<uint64_t>(one.strides()[d]));
    if (dim.extent > 1) sorted.push_back(std::move(dim));
  }
  std::ranges::stable_sort(sorted, std::greater(), [](const Dim& dim) { return dim.strides.back(); });
  for (Dim& dim : sorted) {
    if (dims_.empty() || !continues(dims_.back(), dim)) {
      dims_.push_back(std::move(dim));
      continue;
    }
    dims_.back().extent *= dim.extent;
    dims_.back().strides = std::move(dim.strides);
  }
}

bool UpdateShape::continues(const Dim& outer, const Dim& inner) {
  for (size_t i = 0; i < outer.strides.size(); ++i) {
    if (outer.strides[i] != inner.strides[i] * inner.extent) return false;
  }
  return true;
}

bool UpdateShape::flat() const noexcept {
  if (dims_.empty()) return true;
  return dims_.size() == 1 &&
         std::ranges::all_of(dims_[0].strides, [](uint64_t stride) { return stride == 1; });
}

void UpdateShape::append_to(std::vector<uint64_t>& out) const {
  out.push_back(dims_.size());
  for (const Dim& dim : dims_) out.push_back(dim.extent);
  const size_t operands = dims_.empty() ? 0 : dims_[0].strides.size();
  for (size_t i = 0; i < operands; ++i) {
    for (const Dim& dim : dims_) out.push_back(dim.strides[i]);
  }
}

}  // namespace tenon::cuda
