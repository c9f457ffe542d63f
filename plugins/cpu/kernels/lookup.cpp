// SPDX-License-Identifier: Apache-2.0
// lookup.cpp: a stretch of numbers at a time: one move where they follow each other, else a move of fixed length for each.
#include "lookup.hpp"

#include <cstring>
#include <type_traits>

namespace tenon::cpu {
namespace {

using LookUp = void (*)(const std::byte* numbers, uint64_t n, const std::byte* table, uint64_t rows,
                        std::byte* to);

template <class Number, uint64_t bytes>
void look_up(const std::byte* numbers, uint64_t n, const std::byte* table, uint64_t rows, std::byte* to) {
  using Unsigned = std::make_unsigned_t<Number>;
  constexpr uint64_t stretch = 32;
  const auto* at = reinterpret_cast<const Unsigned*>(numbers);  // a negative one is beyond every table
  const auto one = [&](uint64_t i) {
    if (at[i] < rows)
      std::memcpy(to + i * bytes, table + at[i] * bytes, bytes);
    else
      std::memset(to + i * bytes, 0, bytes);
  };
  uint64_t i = 0;
  for (; i + stretch <= n; i += stretch) {
    const Unsigned first = at[i];
    Unsigned apart = 0;
    for (uint64_t k = 0; k < stretch; ++k) apart |= at[i + k] ^ static_cast<Unsigned>(first + k);
    if (apart == 0 && rows >= stretch && first <= rows - stretch) {
      std::memcpy(to + i * bytes, table + first * bytes, stretch * bytes);
      continue;
    }
    for (uint64_t k = 0; k < stretch; ++k) one(i + k);
  }
  for (; i < n; ++i) one(i);
}

template <class Number>
LookUp look_up_of(uint64_t bytes) noexcept {
  switch (bytes) {
    case 2:
      return look_up<Number, 2>;
    case 4:
      return look_up<Number, 4>;
    case 6:
      return look_up<Number, 6>;
    case 8:
      return look_up<Number, 8>;
    case 12:
      return look_up<Number, 12>;
    case 16:
      return look_up<Number, 16>;
    default:
      return nullptr;
  }
}

LookUp look_up_of(uint32_t dtype, uint64_t bytes) noexcept {
  if (dtype == TN_DTYPE_i32) return look_up_of<int32_t>(bytes);
  if (dtype == TN_DTYPE_u32) return look_up_of<uint32_t>(bytes);
  if (dtype == TN_DTYPE_i64) return look_up_of<int64_t>(bytes);
  return dtype == TN_DTYPE_u64 ? look_up_of<uint64_t>(bytes) : nullptr;
}

class ShortLookup final : public Step {
 public:
  ShortLookup(LookUp look_up, const View& numbers, const Place& at, const Place& table, uint64_t rows,
              const Place& to, uint64_t bytes)
      : look_up_(look_up),
        count_(numbers.count()),
        number_bytes_(numbers.element_bytes()),
        rows_(rows),
        bytes_(bytes),
        at_(at),
        table_(table),
        to_(to) {}

  std::string engine() const override { return "rows"; }

  Status run(const Run& run) const override {
    run.team.run(count_, parallel_grain / 4, [&](uint64_t first, uint64_t end) {
      look_up_(run.at(at_) + first * number_bytes_, end - first, run.at(table_), rows_,
               run.at(to_) + first * bytes_);
    });
    return {};
  }

 private:
  LookUp look_up_;
  uint64_t count_, number_bytes_, rows_, bytes_;
  Place at_, table_, to_;
};

}  // namespace

std::unique_ptr<Step> short_lookup(const Place& numbers, TensorView numbers_view, const Place& table,
                                   TensorView table_view, const Place& to, TensorView to_view) {
  const uint64_t bytes =
      static_cast<uint64_t>(table_view.dims()[1]) * author::dtype_bits(table_view.dtype()) / 8;
  const LookUp look_up = look_up_of(numbers_view.dtype(), bytes);
  const View order(numbers_view);
  if (look_up == nullptr || !order.contiguous() || !table_view.is_dense() || !to_view.is_dense())
    return nullptr;
  return std::make_unique<ShortLookup>(look_up, order, numbers, table,
                                       static_cast<uint64_t>(table_view.dims()[0]), to, bytes);
}

}  // namespace tenon::cpu
