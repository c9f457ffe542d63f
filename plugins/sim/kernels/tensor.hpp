// SPDX-License-Identifier: Apache-2.0
// tensor.hpp: a tensor's shape as kernels use it, and a tensor with its bytes.
//
// Kernels name elements by their logical, row-major index; where an element lies (strides, broadcast, the private layout)
// is decided here and nowhere else.
// Invariant: `place` of an index below `count` lies inside the tensor's bytes.
#pragma once

#include "number.hpp"

#include <tenon/author/fragment_view.hpp>

#include <cstring>
#include <vector>

namespace tenon::sim {

using Dims = std::vector<int64_t>;

// Layout 1, "NZ": the last two dims in tiles of 16 × 16, columns of tiles first; ranks below two stay as they are.
inline constexpr uint32_t nz_layout = 1;

uint64_t count_of(const Dims& dims) noexcept;

struct Shape {
  uint32_t dtype = 0, layout = 0;
  Dims dims{}, strides{};  // strides in elements
  uint64_t count = 1;
  bool dense = true;

  Shape() = default;
  explicit Shape(author::TensorView view);
  static Shape row_major(uint32_t type, Dims shape);

  // Bytes from the first element to the end of the last, padding of tiles included.
  uint64_t bytes() const noexcept;
  uint64_t place(uint64_t index) const noexcept { return dense ? index : walk(index); }

 private:
  uint64_t walk(uint64_t index) const noexcept;
};

// A tensor at run time; absent where an optional operand was left out.
class Operand {
 public:
  Operand() = default;
  Operand(Shape shape, std::byte* data) : shape_(std::move(shape)), data_(data), there_(true) {}

  explicit operator bool() const noexcept { return there_; }
  const Shape& shape() const noexcept { return shape_; }
  const Dims& dims() const noexcept { return shape_.dims; }
  int64_t dim(size_t i) const noexcept { return shape_.dims[i]; }
  uint64_t count() const noexcept { return shape_.count; }
  uint32_t dtype() const noexcept { return shape_.dtype; }

  double real(uint64_t i) const noexcept { return load_real(dtype(), at(i)); }
  uint64_t bits(uint64_t i) const noexcept { return load_bits(dtype(), at(i)); }
  // Any dtype as a double; exact up to 2^53.
  double number(uint64_t i) const noexcept;
  void set(uint64_t i, long double value) const noexcept { store_real(dtype(), at(i), value); }
  void set_bits(uint64_t i, uint64_t value) const noexcept { store_bits(dtype(), at(i), value); }
  // From a double, into any dtype.
  void set_number(uint64_t i, double value) const noexcept;
  // The element itself, from a tensor of the same dtype.
  void take(uint64_t i, const Operand& from, uint64_t j) const noexcept {
    std::memcpy(at(i), from.at(j), bytes_of(dtype()));
  }
  // The same elements repeated to `dims`, as broadcasting does.
  Operand spread(const Dims& dims) const;

 private:
  std::byte* at(uint64_t i) const noexcept { return data_ + shape_.place(i) * bytes_of(dtype()); }

  Shape shape_{};
  std::byte* data_ = nullptr;
  bool there_ = false;
};

}  // namespace tenon::sim
