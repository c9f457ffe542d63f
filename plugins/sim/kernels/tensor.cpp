// SPDX-License-Identifier: Apache-2.0
// tensor.cpp: from an index to a place.
#include "tensor.hpp"

namespace tenon::sim {

namespace {

constexpr uint64_t tile = 16;

uint64_t tiles(int64_t dim) noexcept { return (static_cast<uint64_t>(dim) + tile - 1) / tile; }

}  // namespace

uint64_t count_of(const Dims& dims) noexcept {
  uint64_t count = 1;
  for (const int64_t dim : dims) count *= static_cast<uint64_t>(dim);
  return count;
}

Shape::Shape(author::TensorView view)
    : dtype(view.dtype()),
      layout(view.raw().layout),
      dims(view.dims().begin(), view.dims().end()),
      count(view.elements()),
      dense(view.is_dense()) {
  const auto steps = view.strides();
  strides.assign(steps.begin(), steps.begin() + view.rank());
  if (layout == nz_layout && dims.size() < 2) layout = 0;
  if (layout == 0 && dims.size() < 2) dense = view.rank() == 0 || count < 2 || strides[0] == 1;
}

Shape Shape::row_major(uint32_t type, Dims shape) {
  Shape out;
  out.dtype = type;
  out.dims = std::move(shape);
  out.count = count_of(out.dims);
  out.strides.assign(out.dims.size(), 1);
  for (size_t i = out.dims.size(); i-- > 1;) out.strides[i - 1] = out.strides[i] * out.dims[i];
  return out;
}

uint64_t Shape::bytes() const noexcept {
  if (count == 0) return 0;
  if (layout == nz_layout) {
    const uint64_t rows = tiles(dims[dims.size() - 2]), columns = tiles(dims.back());
    const uint64_t matrices =
        count / static_cast<uint64_t>(dims[dims.size() - 2]) / static_cast<uint64_t>(dims.back());
    return matrices * rows * columns * tile * tile * bytes_of(dtype);
  }
  uint64_t last = 0;
  for (size_t i = 0; i < dims.size(); ++i) last += static_cast<uint64_t>((dims[i] - 1) * strides[i]);
  return (last + 1) * bytes_of(dtype);
}

uint64_t Shape::walk(uint64_t index) const noexcept {
  if (layout == nz_layout) {
    const auto width = static_cast<uint64_t>(dims.back()),
               height = static_cast<uint64_t>(dims[dims.size() - 2]);
    const uint64_t column = index % width, row = index / width % height, matrix = index / width / height;
    const uint64_t rows = tiles(dims[dims.size() - 2]), columns = tiles(dims.back());
    const uint64_t at = (matrix * columns + column / tile) * rows + row / tile;
    return (at * tile + row % tile) * tile + column % tile;
  }
  uint64_t out = 0;
  for (size_t i = dims.size(); i-- > 0;) {
    const auto dim = static_cast<uint64_t>(dims[i]);
    out += index % dim * static_cast<uint64_t>(strides[i]);
    index /= dim;
  }
  return out;
}

double Operand::number(uint64_t i) const noexcept {
  if (is_real(dtype())) return real(i);
  return is_signed(dtype()) ? static_cast<double>(static_cast<int64_t>(bits(i)))
                            : static_cast<double>(bits(i));
}

void Operand::set_number(uint64_t i, double value) const noexcept {
  if (is_real(dtype())) return set(i, value);
  set_bits(i, dtype() == TN_DTYPE_bool ? static_cast<uint64_t>(value != 0) : saturate(dtype(), value));
}

Operand Operand::spread(const Dims& dims) const {
  if (dims == shape_.dims) return *this;
  Operand out = *this;
  const size_t extra = dims.size() - shape_.dims.size();
  out.shape_.strides.assign(dims.size(), 0);
  for (size_t i = 0; i < shape_.dims.size(); ++i) {
    if (shape_.dims[i] == dims[extra + i]) out.shape_.strides[extra + i] = shape_.strides[i];
  }
  out.shape_.dims = dims;
  out.shape_.count = count_of(dims);
  out.shape_.dense = false;
  return out;
}

}  // namespace tenon::sim
