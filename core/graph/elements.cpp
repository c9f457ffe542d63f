// SPDX-License-Identifier: Apache-2.0
// elements.cpp: see elements.hpp. Decimal is used only when reading it back gives the same bytes.
#include "graph/elements.hpp"

#include "base/text.hpp"
#include "graph/columns.hpp"
#include "graph/words.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

namespace tenon::graph {
namespace {

constexpr size_t most_decimals = 16;

template <class T>
void append(std::vector<std::byte>& bytes, T value) {
  std::array<std::byte, sizeof(T)> raw;
  std::memcpy(raw.data(), &value, sizeof(T));
  bytes.insert(bytes.end(), raw.begin(), raw.end());
}

// Calls `use` with a zero of the C++ type that `dtype` is; false for a type without one.
template <class F>
bool with_type(DType dtype, F use) {
  switch (dtype) {
    case boolean:
      return use(bool{}), true;
    case u8:
      return use(uint8_t{}), true;
    case i8:
      return use(int8_t{}), true;
    case u16:
      return use(uint16_t{}), true;
    case i16:
      return use(int16_t{}), true;
    case u32:
      return use(uint32_t{}), true;
    case i32:
      return use(int32_t{}), true;
    case u64:
      return use(uint64_t{}), true;
    case i64:
      return use(int64_t{}), true;
    case f32:
      return use(float{}), true;
    case f64:
      return use(double{}), true;
    default:
      return false;
  }
}

template <class T>
bool fits(const Number& number) {
  const int64_t* whole = std::get_if<int64_t>(&number);
  if constexpr (std::is_floating_point_v<T>) return true;
  if (whole == nullptr) return false;
  if constexpr (std::is_same_v<T, bool>) return *whole == 0 || *whole == 1;
  if constexpr (std::is_same_v<T, uint64_t>) return *whole >= 0;
  if constexpr (!std::is_floating_point_v<T> && !std::is_same_v<T, uint64_t>)
    return *whole >= std::numeric_limits<T>::min() && *whole <= std::numeric_limits<T>::max();
}

template <class T>
std::string told(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    if (!std::isfinite(value)) return words(static_cast<double>(value));
    std::array<char, 32> digits{};
    std::string out(digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr);
    return out.find_first_of(".e") == std::string::npos ? out + ".0" : out;
  } else {
    return std::to_string(value);
  }
}

// The numbers of `bytes`, none where one of them is above every int64.
std::vector<Number> numbers_of(DType dtype, std::span<const std::byte> bytes, std::string& text) {
  std::vector<Number> numbers;
  with_type(dtype, [&]<class T>(T) {
    for (size_t i = 0; i + sizeof(T) <= bytes.size(); i += sizeof(T)) {
      std::conditional_t<std::is_same_v<T, bool>, uint8_t, T> value;
      std::memcpy(&value, bytes.data() + i, sizeof(T));
      text += (text.size() > 1 ? ", " : "") + told(value);
      if constexpr (std::is_floating_point_v<T>) {
        double read = 0;
        const std::string one = told(value);
        std::from_chars(one.data(), one.data() + one.size(), read);
        numbers.emplace_back(read);
      } else {
        numbers.emplace_back(static_cast<int64_t>(value));
      }
    }
  });
  return numbers;
}

int digit(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

std::string elements_text(const TensorSpec& spec, std::span<const std::byte> bytes) {
  if (spec.elements() <= most_decimals) {
    std::string text = "[";
    const auto read = bytes_from(spec.dtype, numbers_of(spec.dtype, bytes, text));
    if (read.ok() && std::equal(bytes.begin(), bytes.end(), (*read).begin(), (*read).end()))
      return text + "]";
  }
  return "0x" + base::hex({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
}

Result<std::vector<std::byte>> bytes_from(DType dtype, const std::vector<Number>& numbers) {
  std::vector<std::byte> bytes;
  std::string wrong;
  const bool known = with_type(dtype, [&]<class T>(T) {
    for (const Number& number : numbers) {
      if (!fits<T>(number)) {
        wrong = std::visit([](auto value) { return told(value); }, number);
        return;
      }
      append(bytes, std::visit([](auto value) { return static_cast<T>(value); }, number));
    }
  });
  if (known && wrong.empty()) return bytes;
  const std::string type(name(dtype));
  return Status(TN_INVALID, known ? wrong + " is no " + type
                                  : "constants of type " + type + " are written in hex: 0x and their bytes");
}

Result<std::vector<std::byte>> bytes_from_hex(std::string_view digits) {
  std::vector<std::byte> bytes;
  if (digits.size() % 2 != 0)
    return Status(TN_INVALID,
                  "hex has two digits for each byte, it is given " + std::to_string(digits.size()));
  for (size_t i = 0; i < digits.size(); i += 2) {
    const int high = digit(digits[i]), low = digit(digits[i + 1]);
    if (high < 0 || low < 0)
      return Status(TN_INVALID,
                    base::quoted(digits.substr(i, 2)) + " at hex digit " + std::to_string(i) + " is no byte");
    bytes.push_back(static_cast<std::byte>(high * 16 + low));
  }
  return bytes;
}

}  // namespace tenon::graph
