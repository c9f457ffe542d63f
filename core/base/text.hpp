// SPDX-License-Identifier: Apache-2.0
// text.hpp: words for messages: the nearest known name, quoting, joining, hex, sizes and times.
//
// Invariant: what comes from outside (file contents, names, a child's output) is made printable before it is shown.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::base {

// The name in `names` that a typing mistake away gives `word`, or "". [any-thread; does not block; cannot fail]
std::string nearest(std::string_view word, std::span<const std::string_view> names);
// " (did you mean 'x'?)", or "" when nothing is near. [any-thread; does not block; cannot fail]
std::string did_you_mean(std::string_view word, std::span<const std::string_view> names);
// `text` in one printable line of at most `limit` bytes, cut at a character with "…". [any-thread; does not block]
std::string printable(std::string_view text, size_t limit = 200);
// The same between single quotes. [any-thread; does not block; cannot fail]
std::string quoted(std::string_view text, size_t limit = 200);
// `text` as a JSON string, quotes included. [any-thread; does not block; cannot fail]
std::string json_quoted(std::string_view text);
// Whether `text` is UTF-8 as RFC 3629 has it: nothing longer than needed, no half of a pair. [any-thread; does not block]
bool is_utf8(std::string_view text) noexcept;
// "comm/world/0" → "comm%2Fworld%2F0": any text becomes a file's name, and no two texts share one.
// [any-thread; does not block; cannot fail]
std::string file_name_for(std::string_view text);
std::string join(std::span<const std::string> parts, std::string_view separator);
// Parts between separators, empty ones kept: "a::b" has three. [any-thread; does not block; cannot fail]
std::vector<std::string> split(std::string_view text, char separator);
std::string_view trim(std::string_view text) noexcept;
// Lower-case hex. [any-thread; does not block; cannot fail]
std::string hex(std::span<const uint8_t> bytes);
// "1 file", "2 files". [any-thread; does not block; cannot fail]
std::string counted(uint64_t count, std::string_view noun);
// "512 B", "25.0 MiB". [any-thread; does not block; cannot fail]
std::string bytes_in_words(uint64_t bytes);
// "3.5 µs", "8.10 ms". [any-thread; does not block; cannot fail]
std::string time_in_words(double ns);

}  // namespace tenon::base
