// SPDX-License-Identifier: Apache-2.0
// optimizer_operand.cpp: bringing rows in and out.
//
// Invariant: f32 rows hold f16, bf16 and f32; f64 rows hold every float type.
#include "optimizer_operand.hpp"

#include <type_traits>

namespace tenon::cpu {

template <class T>
RowOperand<T>::RowOperand(const Place& place, const View& view)
    : place_(place),
      view_(view),
      bytes_(view.element_bytes()),
      load_(load_op(view.dtype())),
      store_(store_op(view.dtype())) {
  constexpr uint32_t own = std::is_same_v<T, float> ? TN_DTYPE_f32 : TN_DTYPE_f64;
  direct_ = view.dtype() == own && view.contiguous();
  if (std::is_same_v<T, float> && view.contiguous()) {
    widen_ = widen_row(view.dtype());
    narrow_ = narrow_row(view.dtype());
  }
  if (std::is_same_v<T, double> && view.dtype() != own) narrow_tile_ = cast_op(Reg::f64, view.dtype());
}

template <class T>
const T* RowOperand<T>::read(const Run& run, uint64_t begin, uint64_t n, Room<T>& room) const noexcept {
  const std::byte* const base = run.at(place_);
  if (direct_) return reinterpret_cast<const T*>(base) + begin;
  const auto count = static_cast<uint32_t>(n);
  if constexpr (std::is_same_v<T, float>) {
    if (widen_ != nullptr)
      widen_(base + begin * bytes_, room.at, n);
    else
      load_(view_, base, begin, count, room.at);
  } else if (narrow_tile_ == nullptr) {
    load_(view_, base, begin, count, room.at);
  } else {
    alignas(64) float narrow[row_elements<T>];
    load_(view_, base, begin, count, narrow);
    for (uint64_t i = 0; i < n; ++i) room.at[i] = narrow[i];
  }
  return room.at;
}

template <class T>
T* RowOperand<T>::target(const Run& run, uint64_t begin, Room<T>& room) const noexcept {
  return direct_ ? reinterpret_cast<T*>(run.at(place_)) + begin : room.at;
}

template <class T>
void RowOperand<T>::write(const Run& run, uint64_t begin, uint64_t n, const T* row) const noexcept {
  std::byte* const base = run.at(place_);
  if (direct_) {
    T* const out = reinterpret_cast<T*>(base) + begin;
    if (out != row) std::memcpy(out, row, n * sizeof(T));
    return;
  }
  const auto count = static_cast<uint32_t>(n);
  if constexpr (std::is_same_v<T, float>) {
    if (narrow_ != nullptr) return narrow_(row, base + begin * bytes_, n);
  }
  if (narrow_tile_ == nullptr) return store_(view_, base, begin, count, row);
  alignas(64) float narrow[row_elements<T>];
  narrow_tile_(narrow, row, nullptr, nullptr, count, Immediate{});
  store_(view_, base, begin, count, narrow);
}

template class RowOperand<float>;
template class RowOperand<double>;

}  // namespace tenon::cpu
