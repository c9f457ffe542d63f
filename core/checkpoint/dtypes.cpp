// SPDX-License-Identifier: Apache-2.0
// dtypes.cpp: see dtypes.hpp. The format's names are those of the `Dtype` of its own library.
#include "checkpoint/dtypes.hpp"

#include <array>
#include <utility>

namespace tenon::checkpoint {
namespace {

constexpr auto names = std::to_array<std::pair<DType, std::string_view>>({
    {DType::bool_, "BOOL"},
    {DType::u8_, "U8"},
    {DType::i8_, "I8"},
    {DType::u16_, "U16"},
    {DType::i16_, "I16"},
    {DType::u32_, "U32"},
    {DType::i32_, "I32"},
    {DType::u64_, "U64"},
    {DType::i64_, "I64"},
    {DType::f16_, "F16"},
    {DType::bf16_, "BF16"},
    {DType::f32_, "F32"},
    {DType::f64_, "F64"},
    {DType::f8e4m3_, "F8_E4M3"},
    {DType::f8e5m2_, "F8_E5M2"},
});

}  // namespace

std::string_view format_name(DType dtype) noexcept {
  for (const auto& [known, name] : names)
    if (known == dtype) return name;
  return {};
}

std::optional<DType> dtype_called(std::string_view format_name) noexcept {
  for (const auto& [dtype, name] : names)
    if (name == format_name) return dtype;
  return {};
}

}  // namespace tenon::checkpoint
