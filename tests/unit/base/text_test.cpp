// SPDX-License-Identifier: Apache-2.0
// Words for messages: suggestions, and text from outside made harmless.
#include "base/text.hpp"

#include <doctest/doctest.h>

#include <array>
#include <string>

namespace base = tenon::base;

TEST_CASE("text: the nearest name is a typing mistake away, not a wild guess") {
  constexpr std::array<std::string_view, 4> names = {"axes", "keepdims", "transpose_a", "pad"};
  CHECK(base::nearest("axis", names) == "axes");
  CHECK(base::nearest("keepdim", names) == "keepdims");
  CHECK(base::nearest("kepedims", names) == "keepdims");
  CHECK(base::nearest("transpose_b", names) == "transpose_a");
  CHECK(base::nearest("learning_rate", names) == "");
  CHECK(base::nearest("", names) == "");
  CHECK(base::nearest(std::string(10'000, 'x'), names) == "");
  CHECK(base::did_you_mean("axis", names) == " (did you mean 'axes'?)");
  CHECK(base::did_you_mean("momentum", names) == "");
}

TEST_CASE("text: what comes from outside becomes one printable line") {
  CHECK(base::printable("  a\nb\tc\x1b[31m \r\n") == "a b c [31m");
  CHECK(base::printable("what():\n    no  such thing") == "what(): no such thing");
  CHECK(base::printable("\x01\x02x") == "x");
  CHECK(base::quoted("x\n") == "'x'");
  CHECK(base::printable("abcdef", 3) == "abc…");
  CHECK(base::printable("aé", 2) == "a…");  // é takes two bytes, and is not cut in half
  CHECK(base::printable("") == "");
}

TEST_CASE("text: JSON strings escape what JSON forbids and nothing else") {
  CHECK(base::json_quoted("a\"b\\c\n\x01é") == "\"a\\\"b\\\\c\\u000a\\u0001é\"");
  CHECK(base::json_quoted("") == "\"\"");
}

TEST_CASE("text: UTF-8 is told from what only looks like it") {
  for (const char* good : {"", "plain", "µ…😀", "\x7f", "\xc2\x80", "\xe0\xa0\x80", "\xed\x9f\xbf",
                           "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"})
    CHECK_MESSAGE(base::is_utf8(good), good);
  CHECK(base::is_utf8(std::string_view("a\0b", 3)));
  for (const char* bad : {"\x80", "\xff", "\xc0\x80", "\xc1\xbf", "\xc3", "\xc3(", "\xe2\x82", "\xe0\x9f\xbf",
                          "\xed\xa0\x80", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80"})
    CHECK_FALSE_MESSAGE(base::is_utf8(bad), base::hex(std::span(reinterpret_cast<const uint8_t*>(bad), 2)));
}

TEST_CASE("text: split keeps empty parts, join puts them back") {
  const auto parts = base::split("a::b:", ':');
  CHECK(parts == std::vector<std::string>{"a", "", "b", ""});
  CHECK(base::join(parts, ":") == "a::b:");
  CHECK(base::split("", ':').size() == 1);
  CHECK(base::trim(" \t a b \n") == "a b");
  CHECK(base::trim(" \n ") == "");
}

TEST_CASE("text: numbers of things read as English") {
  CHECK(base::counted(1, "byte") == "1 byte");
  CHECK(base::counted(0, "byte") == "0 bytes");
  constexpr std::array<uint8_t, 3> bytes = {0x00, 0x9f, 0xff};
  CHECK(base::hex(bytes) == "009fff");
}

TEST_CASE("text: sizes and times have the unit that keeps them short") {
  CHECK(base::bytes_in_words(0) == "0 B");
  CHECK(base::bytes_in_words(1023) == "1023 B");
  CHECK(base::bytes_in_words(1536) == "1.5 KiB");
  CHECK(base::bytes_in_words(25 << 20) == "25.0 MiB");
  CHECK(base::bytes_in_words(UINT64_MAX) == "16777216.0 TiB");
  CHECK(base::time_in_words(0) == "0.0 µs");
  CHECK(base::time_in_words(999'940) == "999.9 µs");
  CHECK(base::time_in_words(8'104'000) == "8.10 ms");
  CHECK(base::time_in_words(3'111'790'000) == "3.11 s");
}
