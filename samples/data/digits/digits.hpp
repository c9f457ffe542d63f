// SPDX-License-Identifier: Apache-2.0
// digits.hpp: the digits of this folder as a data set: "image" u8 {1, 8, 8} with numbers from 0 to 16, "label" i32 {}.
//
// Invariant: a file that is not as README.md says is refused with the line and what is wrong there.
#pragma once

#include <tenon/loader.hpp>

#include <cstring>
#include <fstream>
#include <string>

namespace digits {

inline constexpr uint64_t all = 1797;

// Every fifth is kept apart to test with, so that each writer is on both sides.
enum class Part { everything, learned, tested };
constexpr bool has(Part part, uint64_t line) noexcept {
  return part == Part::everything || (line % 5 == 4) == (part == Part::tested);
}
// How many digits a part has: 1,797, 1,438, 359. [any-thread; does not block; cannot fail]
constexpr uint64_t count(Part part) noexcept {
  uint64_t out = 0;
  for (uint64_t line = 0; line < all; ++line) out += has(part, line);
  return out;
}

inline constexpr int64_t pixels = 64, greatest = 16;

namespace detail {

// '0' … '9', 'a' … 'g' are 0 … 16; others -1.
inline int number(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'g' ? c - 'a' + 10 : -1;
}

// "" when a line is 64 numbers, a space and a label; else what is wrong.
inline std::string mistake(const std::string& line) {
  if (line.size() != pixels + 2) return "it has " + std::to_string(line.size()) + " characters instead of 66";
  for (size_t i = 0; i < pixels; ++i) {
    if (number(line[i]) < 0) return "character " + std::to_string(i + 1) + " is none of 0-9 and a-g";
  }
  return line[pixels] == ' ' && line.back() >= '0' && line.back() <= '9'
             ? ""
             : "it does not end in a space and a label";
}

}  // namespace detail

// The digits of a part of the file `path`. TN_NOT_FOUND; TN_INVALID. [any-thread; may block; may fail]
inline tenon::Result<tenon::Dataset> read(const std::string& path, Part part = Part::everything) {
  std::ifstream file(path);
  if (!file) return tenon::Status(TN_NOT_FOUND, "digits: cannot open '" + path + "'");
  std::vector<std::byte> images, labels;
  std::string line;
  for (uint64_t at = 0; at < all; ++at) {
    const std::string place = "digits: '" + path + "', line " + std::to_string(at + 1) + ": ";
    if (!std::getline(file, line)) return tenon::Status(TN_INVALID, place + "the file ends before it");
    if (const std::string wrong = detail::mistake(line); !wrong.empty())
      return tenon::Status(TN_INVALID, place + wrong);
    if (!has(part, at)) continue;
    for (size_t i = 0; i < pixels; ++i) images.push_back(static_cast<std::byte>(detail::number(line[i])));
    const int32_t label = line.back() - '0';
    labels.resize(labels.size() + sizeof label);
    std::memcpy(labels.data() + labels.size() - sizeof label, &label, sizeof label);
  }
  return tenon::memory_dataset(
      {{"image", {tenon::u8, {1, 8, 8}}, std::move(images)}, {"label", {tenon::i32, {}}, std::move(labels)}});
}

}  // namespace digits
