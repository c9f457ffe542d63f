// SPDX-License-Identifier: Apache-2.0
// op_ranges.hpp: ranges.def as data: what the number or the word of an attribute may be, and the words for one that it may
// not be.
//
// The host's graph and the rules of op_rules.hpp read these rows, and tell a mistake in the same words.
// Invariant: rows stand in the order of their ops; an op without rows has an empty span.
#pragma once

#include <tenon/author/names.hpp>
#include <tenon/author/text.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <limits>
#include <span>

namespace tenon::author {

// One row: numbers from `least` to `most`, or, where there are any, `words` with blanks between.
struct AttributeRange {
  uint32_t op;
  std::string_view attribute;
  double least, most;
  std::string_view words;
};

namespace detail {

inline constexpr double finite = std::numeric_limits<double>::max();
inline constexpr double above_zero = std::numeric_limits<double>::min();
inline constexpr double below_one = 1 - 1.0 / (1 << 24);

inline constexpr AttributeRange ranges[] = {
#define TN_RANGE(op, attribute, least, most) {TN_OP_##op, #attribute, least, most, ""},
#define TN_WORDS(op, attribute, words) {TN_OP_##op, #attribute, 0, 0, words},
#include <tenon/ranges.def>
};

constexpr bool is_before(const AttributeRange& a, const AttributeRange& b) noexcept { return a.op < b.op; }
static_assert(std::is_sorted(std::begin(ranges), std::end(ranges), is_before));

// The shortest digits that read as the same number. [any-thread; may throw bad_alloc]
inline std::string digits(double number) {
  std::array<char, 32> out{};
  return std::string(out.data(), std::to_chars(out.data(), out.data() + out.size(), number).ptr);
}

}  // namespace detail

// The rows of an op. [any-thread; does not block; cannot fail]
constexpr std::span<const AttributeRange> ranges_of(uint32_t op) noexcept {
  const AttributeRange wanted{op, "", 0, 0, ""};
  const auto [first, last] =
      std::equal_range(std::begin(detail::ranges), std::end(detail::ranges), wanted, detail::is_before);
  return {first, last};
}

// Whether an attribute may be this number, or this word. [any-thread; does not block; cannot fail]
constexpr bool is_within(const AttributeRange& range, double number) noexcept {
  return number >= range.least && number <= range.most;
}
constexpr bool is_within(const AttributeRange& range, std::string_view word) noexcept {
  for (std::string_view rest = range.words; !rest.empty();) {
    const size_t end = std::min(rest.find(' '), rest.size());
    if (rest.substr(0, end) == word) return true;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return false;
}

// Whether elements of `dtype` can be this number: floats round it, others hold it as it is.
// [any-thread; does not block; cannot fail]
constexpr bool holds(uint32_t dtype, double number) noexcept {
  const DtypeRow row = dtype_row(dtype);
  if (row.kind == DtypeClass::boolean) return number == 0 || number == 1;
  if (!is_integer(dtype)) return true;
  const bool is_signed = row.kind == DtypeClass::signed_integer;
  double end = 1;  // the first whole number that is too large
  for (uint32_t bit = is_signed ? 1 : 0; bit < row.bits; ++bit) end *= 2;
  if (!(number >= (is_signed ? -end : 0) && number < end)) return false;
  return number < 0 ? number == static_cast<double>(static_cast<int64_t>(number))
                    : number == static_cast<double>(static_cast<uint64_t>(number));
}

// "0 to 1", "more than 0, and 1 at most", "one of sum prod". [any-thread; may throw bad_alloc]
inline std::string words(const AttributeRange& range) {
  using namespace detail;
  if (!range.words.empty()) return text("one of ", range.words);
  if (range.least == -finite) return "a finite number";
  const std::string low = range.least == above_zero ? "more than 0" : digits(range.least) + " or more";
  if (range.most == finite) return low;
  if (range.most == below_one) return low + ", and less than 1 in f32";
  if (range.least == above_zero) return low + ", and " + digits(range.most) + " at most";
  return digits(range.least) + " to " + digits(range.most);
}

// "attribute 'rate' is 2, it must be 0 to 1", of a value that is not within. [any-thread; may throw bad_alloc]
[[gnu::cold, gnu::noinline]] inline std::string out_of_range(const AttributeRange& range,
                                                             std::string_view value) {
  return text("attribute '", range.attribute, "' is ", value, ", it must be ", words(range));
}
[[gnu::cold, gnu::noinline]] inline std::string not_held(uint32_t dtype, double number) {
  return text("attribute 'value' is ", detail::digits(number), ", which no ", dtype_name(dtype), " is");
}

}  // namespace tenon::author
