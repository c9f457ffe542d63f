// SPDX-License-Identifier: Apache-2.0
// number.cpp: one element of memory as a number.
#include "graph/number.hpp"

#include <tenon/author/half.hpp>

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace tenon::graph {
namespace {

template <class T>
T load(const std::byte* from) noexcept {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// Calls `use` with an element of the C++ type that `dtype` is.
template <class Use>
void with_number(DType dtype, Use&& use) {
  switch (dtype) {
    case boolean:
    case u8:
      return use(uint8_t{});
    case i8:
      return use(int8_t{});
    case u16:
      return use(uint16_t{});
    case i16:
      return use(int16_t{});
    case u32:
      return use(uint32_t{});
    case i32:
      return use(int32_t{});
    case u64:
      return use(uint64_t{});
    case i64:
      return use(int64_t{});
    case f16:
      return use(author::F16{});
    case bf16:
      return use(author::BF16{});
    case f32:
      return use(float{});
    case f64:
      return use(double{});
    default:
      return;
  }
}

template <class T>
T whole(double number) noexcept {
  using Limits = std::numeric_limits<T>;
  if (std::isnan(number)) return 0;
  if (number <= static_cast<double>(Limits::min())) return Limits::min();
  if (number >= static_cast<double>(Limits::max())) return Limits::max();
  return static_cast<T>(number);
}

}  // namespace

double read_element(DType dtype, const std::byte* from) noexcept {
  double number = 0;
  with_number(dtype, [&]<class T>(T) {
    const T held = load<T>(from);
    if constexpr (std::is_arithmetic_v<T>) {
      number = static_cast<double>(held);
    } else {
      number = static_cast<double>(author::widen(held));
    }
  });
  return number;
}

void write_element(DType dtype, double number, std::byte* to) noexcept {
  with_number(dtype, [&]<class T>(T) {
    T held{};
    if constexpr (std::is_same_v<T, author::F16>) {
      held = author::to_f16(static_cast<float>(number));
    } else if constexpr (std::is_same_v<T, author::BF16>) {
      held = author::to_bf16(static_cast<float>(number));
    } else if constexpr (std::is_floating_point_v<T>) {
      held = static_cast<T>(number);
    } else {
      held = whole<T>(dtype == boolean ? (number != 0 ? 1 : 0) : number);
    }
    std::memcpy(to, &held, sizeof held);
  });
}

}  // namespace tenon::graph
