// SPDX-License-Identifier: Apache-2.0
// text.cpp: see text.hpp.
#include "base/text.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <numeric>

namespace tenon::base {
namespace {

// Edits (insert, delete, replace, swap of neighbours) that make `a` into `b`; names are short, so O(n·m) is nothing.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replace = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({replace, last[j] + 1, row[j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

bool is_control(char c) noexcept { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }
bool is_continuation(char c) noexcept { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// Bytes of the first character of `text`, which is not empty; 0 where they are none.
size_t utf8_length(std::string_view text) noexcept {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i)
    if (!is_continuation(text[i])) return 0;
  const auto second = static_cast<unsigned char>(text[1]);
  const bool too_long = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
  const bool past_the_end = (first == 0xED && second > 0x9F) || (first == 0xF4 && second > 0x8F);
  return too_long || past_the_end ? 0 : length;
}

}  // namespace

std::string nearest(std::string_view word, std::span<const std::string_view> names) {
  if (word.size() > 64) return {};
  size_t best = std::max<size_t>(1, word.size() / 3) + 1;
  std::string_view found;
  for (const std::string_view name : names) {
    const size_t distance = edit_distance(word, name);
    if (distance < best && distance < name.size()) {
      best = distance;
      found = name;
    }
  }
  return std::string(found);
}

std::string did_you_mean(std::string_view word, std::span<const std::string_view> names) {
  const std::string name = nearest(word, names);
  if (name.empty()) return {};
  std::string out = " (did you mean '";
  return out.append(name).append("'?)");
}

std::string printable(std::string_view text, size_t limit) {
  std::string line;
  line.reserve(text.size());
  for (const char raw : trim(text)) {
    const char c = is_control(raw) ? ' ' : raw;
    if (c != ' ' || (!line.empty() && line.back() != ' ')) line.push_back(c);
  }
  if (line.size() <= limit) return line;
  size_t end = limit;
  while (end > 0 && is_continuation(line[end])) --end;
  return line.substr(0, end) + "…";
}

std::string quoted(std::string_view text, size_t limit) {
  std::string out = "'";
  out += printable(text, limit);
  return out += '\'';
}

std::string json_quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (is_control(c)) {
      std::array<char, 8> code{};
      std::snprintf(code.data(), code.size(), "\\u%04x", static_cast<unsigned>(c));
      out += code.data();
    } else {
      out += c;
    }
  }
  return out + '"';
}

bool is_utf8(std::string_view text) noexcept {
  for (size_t at = 0; at < text.size();) {
    const size_t length = utf8_length(text.substr(at));
    if (length == 0) return false;
    at += length;
  }
  return true;
}

std::string file_name_for(std::string_view text) {
  constexpr char digits[] = "0123456789ABCDEF";
  std::string name;
  for (const char letter : text) {
    const bool plain = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
                       (letter >= '0' && letter <= '9') || letter == '-' || letter == '_' ||
                       (letter == '.' && !name.empty());
    const auto byte = static_cast<unsigned char>(letter);
    if (plain) {
      name += letter;
    } else {
      name += {'%', digits[byte / 16], digits[byte % 16]};
    }
  }
  return name;
}

std::string join(std::span<const std::string> parts, std::string_view separator) {
  std::string out;
  for (size_t i = 0; i < parts.size(); ++i) out.append(i == 0 ? "" : separator).append(parts[i]);
  return out;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (size_t end = text.find(separator); end != std::string_view::npos; end = text.find(separator)) {
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  parts.emplace_back(text);
  return parts;
}

std::string_view trim(std::string_view text) noexcept {
  constexpr std::string_view blanks = " \t\r\n\v\f";
  const size_t begin = text.find_first_not_of(blanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(blanks) - begin + 1);
}

std::string hex(std::span<const uint8_t> bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const uint8_t byte : bytes) out += {digits[byte >> 4], digits[byte & 15]};
  return out;
}

std::string counted(uint64_t count, std::string_view noun) {
  return std::to_string(count) + " " + std::string(noun) + (count == 1 ? "" : "s");
}

std::string bytes_in_words(uint64_t bytes) {
  static constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto number = static_cast<double>(bytes);
  size_t unit = 0;
  for (; number >= 1024 && unit + 1 < std::size(units); ++unit) number /= 1024;
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.1f %s", number, units[unit]);
  return text;
}

std::string time_in_words(double ns) {
  char text[32];
  if (ns < 1e6)
    std::snprintf(text, sizeof text, "%.1f µs", ns / 1e3);
  else
    std::snprintf(text, sizeof text, ns < 1e9 ? "%.2f ms" : "%.2f s", ns < 1e9 ? ns / 1e6 : ns / 1e9);
  return text;
}

}  // namespace tenon::base
