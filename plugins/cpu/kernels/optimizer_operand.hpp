// SPDX-License-Identifier: Apache-2.0
// optimizer_operand.hpp: a tensor of any float type and any strides as rows of the type computed in.
//
// Dense memory of that type is a row as it stands; anything else is brought to a row in L1, and back.
// Invariant: elements are counted in logical order; a conversion rounds once.
#pragma once

#include "half_rows.hpp"
#include "step.hpp"
#include "tile_ops.hpp"
#include "view.hpp"

namespace tenon::cpu {

// Elements of a row that is brought in: eight rows and the memory behind them fit L1.
inline constexpr uint64_t row_bytes = 2048;
template <class T>
inline constexpr uint64_t row_elements = row_bytes / sizeof(T);

// Room for one row.
template <class T>
struct alignas(64) Room {
  T at[row_elements<T>];
};

template <class T>
class RowOperand {
 public:
  RowOperand() = default;
  RowOperand(const Place& place, const View& view);

  bool there() const noexcept { return place_.kind != Place::Kind::none; }
  // Whether rows are the memory itself, of any length.
  bool direct() const noexcept { return direct_; }
  const Place& place() const noexcept { return place_; }
  const View& view() const noexcept { return view_; }
  // Whether both name the same memory in this run, element by element.
  bool same_memory(const RowOperand& other, const Run& run) const noexcept {
    return run.at(place_) == run.at(other.place_) && view_.dtype() == other.view_.dtype() &&
           view_.same_places(other.view_);
  }

  // Elements [begin, begin + n): where they lie, or in `room`. [worker thread; does not block; cannot fail]
  const T* read(const Run& run, uint64_t begin, uint64_t n, Room<T>& room) const noexcept;
  // Where a result is to be computed: in memory, or in `room` until `write` takes it there.
  T* target(const Run& run, uint64_t begin, Room<T>& room) const noexcept;
  void write(const Run& run, uint64_t begin, uint64_t n, const T* row) const noexcept;

 private:
  Place place_{};
  View view_{};
  bool direct_ = false;
  uint32_t bytes_ = 0;
  WidenRow widen_ = nullptr;    // dense halves
  NarrowRow narrow_ = nullptr;  // likewise
  LoadFn load_ = nullptr;       // anything
  StoreFn store_ = nullptr;
  TileFn narrow_tile_ = nullptr;  // from f64 to the class of a narrower type
};

extern template class RowOperand<float>;
extern template class RowOperand<double>;

}  // namespace tenon::cpu
