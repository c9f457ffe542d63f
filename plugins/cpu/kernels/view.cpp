// SPDX-License-Identifier: Apache-2.0
// view.cpp: making views.
//
// Invariant: dims are pushed outermost first, and each push keeps the view collapsed.
#include "view.hpp"

namespace tenon::cpu {

namespace {

constexpr auto all_dims = [] {
  std::array<uint32_t, TN_MAX_RANK> out{};
  for (uint32_t i = 0; i < TN_MAX_RANK; ++i) out[i] = i;
  return out;
}();
constexpr std::span<const uint32_t> logical(all_dims);

}  // namespace

void View::push(int64_t dim, int64_t stride) noexcept {
  count_ *= static_cast<uint64_t>(dim);
  if (dim == 1) return;
  if (rank_ > 0 && strides_[rank_ - 1] == stride * dim) {
    dims_[rank_ - 1] *= dim;
    strides_[rank_ - 1] = stride;
    return;
  }
  dims_[rank_] = dim;
  strides_[rank_] = stride;
  ++rank_;
}

View::View(uint32_t dtype, std::span<const int64_t> dims, std::span<const int64_t> strides) : dtype_(dtype) {
  for (size_t i = 0; i < dims.size(); ++i) push(dims[i], strides[i]);
}

View::View(TensorView tensor) : View(tensor.dtype(), tensor.dims(), tensor.strides()) {}

View::View(TensorView tensor, std::span<const int64_t> dims)
    : View(tensor, dims, logical.first(dims.size())) {}

View::View(TensorView tensor, std::span<const int64_t> dims, std::span<const uint32_t> order)
    : dtype_(tensor.dtype()) {
  const auto strides = tensor.strides();
  const size_t missing = dims.size() - tensor.rank();
  for (const uint32_t i : order) {
    const bool repeated = i < missing || tensor.dims()[i - missing] == 1;
    push(dims[i], repeated ? 0 : strides[i - missing]);
  }
}

View View::permuted(TensorView tensor, std::span<const uint32_t> order) {
  View out;
  out.dtype_ = tensor.dtype();
  const auto strides = tensor.strides();
  for (const uint32_t i : order) out.push(tensor.dims()[i], strides[i]);
  return out;
}

View View::dense(uint32_t dtype, uint64_t count) {
  View out;
  out.dtype_ = dtype;
  out.push(static_cast<int64_t>(count), 1);
  return out;
}

}  // namespace tenon::cpu
