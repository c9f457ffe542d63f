// SPDX-License-Identifier: Apache-2.0
// arrangement.cpp: which tensors are copied.
//
// Invariant: a tensor is copied at most once in each direction.
#include "arrangement.hpp"

#include "tiles.hpp"

namespace tenon::cpu {

bool Arrangement::lies(TensorView tensor, std::span<const uint32_t> order) {
  return View::permuted(tensor, order).contiguous() && tensor.elements() > 0;
}

Result<Place> Arrangement::input(uint32_t index, uint32_t dtype) {
  for (const auto& [tensor, place] : known_) {
    if (tensor == index) return place;
  }
  const TensorView tensor = builder_.fragment().tensor(index);
  Place place = builder_.place(index);
  if (tensor.dtype() != dtype || !lies(tensor, order_)) {
    place = builder_.scratch(author::dtype_bytes(dtype, tensor.elements()));
    builder_.add(TN_TRY(copy_step(builder_.place(index), View::permuted(tensor, order_), place,
                                  View::dense(dtype, tensor.elements()))));
  }
  known_.emplace_back(index, place);
  return place;
}

Place Arrangement::output(uint32_t index, uint32_t dtype) {
  const TensorView tensor = builder_.fragment().tensor(index);
  const Place own = builder_.output_place(index);
  Place place = own;
  if (tensor.dtype() != dtype || !lies(tensor, order_)) {
    place = builder_.scratch(author::dtype_bytes(dtype, tensor.elements()));
    late_.push_back({place, own, View::dense(dtype, tensor.elements()), View::permuted(tensor, order_)});
  }
  known_.emplace_back(index, place);
  return place;
}

Result<Place> Arrangement::parameter(uint32_t index, uint32_t dtype) {
  if (index == TN_ABSENT) return Place{};
  const TensorView tensor = builder_.fragment().tensor(index);
  if (tensor.dtype() == dtype && tensor.is_dense()) return builder_.place(index);
  const Place place = builder_.scratch(author::dtype_bytes(dtype, tensor.elements()));
  builder_.add(
      TN_TRY(copy_step(builder_.place(index), View(tensor), place, View::dense(dtype, tensor.elements()))));
  return place;
}

Place Arrangement::statistic(uint32_t index, uint32_t dtype) {
  if (index == TN_ABSENT) return {};
  const TensorView tensor = builder_.fragment().tensor(index);
  const Place own = builder_.output_place(index);
  if (tensor.dtype() == dtype && tensor.is_dense()) return own;
  const Place place = builder_.scratch(author::dtype_bytes(dtype, tensor.elements()));
  late_.push_back({place, own, View::dense(dtype, tensor.elements()), View(tensor)});
  return place;
}

Status Arrangement::finish() {
  for (const Late& late : late_)
    builder_.add(TN_TRY(copy_step(late.from, late.from_view, late.to, late.to_view)));
  late_.clear();
  return {};
}

}  // namespace tenon::cpu
