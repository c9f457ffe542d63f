// SPDX-License-Identifier: Apache-2.0
// text.hpp: building the words of messages and filling the fixed character arrays of the ABI.
//
// Invariant: whatever is written into a fixed array ends in NUL and is cut between two UTF-8 characters.
#pragma once

#include <concepts>
#include <cstring>
#include <string>
#include <string_view>

namespace tenon::author {

namespace detail {
inline void append(std::string& out, std::string_view part) { out += part; }
template <class Number>
requires std::integral<Number> || std::floating_point<Number>
void append(std::string& out, Number number) { out += std::to_string(number); }
}  // namespace detail

// Joins texts and numbers: text("asked for ", bytes, " bytes"). [any-thread; does not block; may throw
// bad_alloc]
template <class... Parts>
std::string text(const Parts&... parts) {
  std::string out;
  (detail::append(out, parts), ...);
  return out;
}

// Fills a fixed array such as tn_device_info.name. [any-thread; does not block; cannot fail]
template <size_t size>
void set_text(char (&field)[size], std::string_view value) noexcept {
  size_t n = value.size() < size ? value.size() : size - 1;
  while (n > 0 && n < value.size() && (static_cast<unsigned char>(value[n]) & 0xC0) == 0x80) --n;
  std::memcpy(field, value.data(), n);
  std::memset(field + n, 0, size - n);
}

}  // namespace tenon::author
