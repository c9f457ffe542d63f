// SPDX-License-Identifier: Apache-2.0
// json_test.cpp: values as JSON has them, and a line for each that is not.
#include "base/json.hpp"

#include <doctest/doctest.h>

#include <array>
#include <vector>

using namespace tenon;
using namespace tenon::base;

namespace {

std::string text_of(std::string_view json) {
  JsonReader reader(json);
  const auto text = reader.string();
  return text.ok() ? *text : "failed: " + std::string(text.message());
}

std::string number_of(std::string_view json) {
  JsonReader reader(json);
  const auto number = reader.number();
  return number.ok() ? std::to_string(*number) : "failed: " + std::string(number.message());
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("json: strings with every escape") {
  CHECK(text_of(R"("a\"\\\/\b\f\n\r\tz")") == "a\"\\/\b\f\n\r\tz");
  CHECK(text_of(R"("\u00b5 \u2026 \ud83d\ude00 \u0041")") == "µ … 😀 A");
  CHECK(text_of("\"µ stays\"") == "µ stays");
}

TEST_CASE("json: strings that are none") {
  CHECK(has(text_of(R"("\ud83d")"), "half of a pair"));
  CHECK(has(text_of(R"("\ude00")"), "half of a pair"));
  CHECK(has(text_of(R"("\ud83dA")"), "half of a pair"));
  CHECK(has(text_of(R"("\u12g4")"), "four hexadecimal digits"));
  CHECK(has(text_of(R"("\u12)"), "four hexadecimal digits"));
  CHECK(has(text_of(R"("\x")"), "no escape of JSON"));
  CHECK(has(text_of("\"open"), "cut off"));
  CHECK(has(text_of("\"a\nb\""), "control character"));
  CHECK(has(text_of("12"), "expected a string, found '12'"));
}

TEST_CASE("json: numbers, and what only looks like one") {
  CHECK(number_of(" -1.5e3 ") == "-1500.000000");
  CHECK(has(number_of("1.2.3"), "expected a number"));
  CHECK(has(number_of("-"), "expected a number"));
  CHECK(has(number_of("NaN"), "expected a number"));
  CHECK(has(number_of(""), "end of the file"));
  CHECK(*JsonReader("9223372036854775807").integer() == INT64_MAX);
  CHECK_FALSE(JsonReader("9223372036854775808").integer().ok());
  CHECK_FALSE(JsonReader("1.5").integer().ok());
}

TEST_CASE("json: objects and arrays call for each, and failures tell their line") {
  JsonReader reader("{\n \"a\": [1, 2,\n 3], \"b\" : [] , \"c\": {} }\n");
  std::vector<std::string> keys;
  std::vector<int64_t> numbers;
  const Status read = reader.object([&](const std::string& key) -> Status {
    keys.push_back(key);
    if (key == "c") return reader.object([](const std::string&) { return Status(); });
    return reader.array([&]() -> Status {
      numbers.push_back(TN_TRY(reader.integer()));
      return {};
    });
  });
  CHECK(read.ok());
  CHECK(reader.end().ok());
  CHECK(keys == std::vector<std::string>{"a", "b", "c"});
  CHECK(numbers == std::vector<int64_t>{1, 2, 3});

  JsonReader open("[1,\n2\n3]");
  const Status missed = open.array([&]() -> Status {
    TN_TRY(open.integer());
    return {};
  });
  CHECK(missed.message() == "line 3: expected ',' or ']', found '3]'");
  CHECK(has(std::string(JsonReader("1 2").end().message()), "expected the end of the file"));
}

TEST_CASE("json: an unknown key is named with the nearest, a second one refused") {
  static constexpr std::array<std::string_view, 2> known{"bytes", "bucket"};
  const JsonReader reader("");
  Keys keys("args", known);
  CHECK(*keys.place(reader, "bucket") == 1);
  CHECK(keys.has(1));
  CHECK_FALSE(keys.has(0));
  CHECK(keys.place(reader, "buckte").message() ==
        "line 1: args has no key 'buckte' (did you mean 'bucket'?): it has bytes, bucket");
  CHECK(keys.place(reader, "bucket").message() == "line 1: args has key 'bucket' twice: keep one");
}

TEST_CASE("json: failures in a part of a file tell their byte") {
  JsonReader reader("{\"a\":tru}", 8);
  const Status read = reader.object([&](const std::string&) -> Status {
    TN_TRY(reader.integer());
    return {};
  });
  CHECK(read.message() == "byte 13: expected a whole number below 2^63, found 'tru}'");
}
