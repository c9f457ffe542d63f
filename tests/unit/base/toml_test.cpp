// SPDX-License-Identifier: Apache-2.0
// Any bytes give a table or a reason.
#include "base/toml.hpp"

#include "support/full.hpp"
#include "support/seed.hpp"

#include <doctest/doctest.h>

#include <string>

using tenon::base::parse_toml;

namespace {

std::string text_of(const std::string& toml, const char* key) {
  const auto table = parse_toml("/x.toml", toml);
  INFO(table.message());
  REQUIRE(table.ok());
  return (*table)[key].value_or(std::string("(none)"));
}

std::string refusal(const std::string& toml) {
  const auto table = parse_toml("/x.toml", toml);
  CHECK(table.code() == TN_INVALID);
  return std::string(table.message());
}

bool says(const std::string& text, const char* words) {
  const bool found = text.find(words) != std::string::npos;
  if (!found) MESSAGE(text);
  return found;
}

}  // namespace

TEST_CASE("toml: text of any language arrives as it was written") {
  CHECK(text_of("a = \"Société Générale\"", "a") == "Société Générale");
  CHECK(text_of("a = \"ひらがな 한국어 中文\" # тест", "a") == "ひらがな 한국어 中文");
  CHECK(text_of("a = \"🚀\"", "a") == "🚀");
  CHECK(text_of("a = \"quote \\\" é\"", "a") == "quote \" é");
  CHECK(text_of("# é ' \"\na = 'b' # é\n", "a") == "b");
  CHECK(text_of("\xEF\xBB\xBF"
                "a = \"b\"",
                "a") == "b");
}

TEST_CASE("toml: characters outside ASCII elsewhere are told with their line") {
  CHECK(says(refusal("a = 1\nb = é\n"), "/x.toml: line 2 holds a character outside ASCII"));
  CHECK(says(refusal("é = 1"), "put it between double quotes"));
  CHECK(says(refusal("a = 'é'"), "put it between double quotes"));
  CHECK(says(refusal("a = \"\\é\""), "outside ASCII"));
  CHECK(says(refusal("a = 1\n\nb = \"\xff\""), "line 3 is not UTF-8"));
  CHECK(says(refusal("a = \"\xC0\x80\""), "is not UTF-8"));     // overlong
  CHECK(says(refusal("a = \"\xED\xA0\x80\""), "is not TOML"));  // half of a pair
  CHECK(says(refusal("a = \"\xE3\x81"), "is not UTF-8"));       // cut
}

TEST_CASE("toml: texts for which the parser breaks its contract are refused like others") {
  for (const char* text : {"[[=", "[[[1]]]", "[+a]", "[[+a]]", "d = 1979-05-27T[", "t = {a = [true,}nf]}",
                           "[=", "[ ]", "=", "a.=1"}) {
    CAPTURE(text);
    CHECK(says(refusal(text), "is not TOML"));
  }
}

TEST_CASE("toml: any damage to a document gives a table or a one-line reason") {
  const std::string whole =
      "a = 1\nb = \"é\"\n[c]\nd = 1979-05-27T07:32:00Z\ne = {f = [1.5e3, true], g.h = 0x1F}\n[[i]]\nj = "
      "'''k\n'''\n";
  const std::string alphabet = "[]{}=\"'\\#.,+-_019:TZ \n\r\tafinu\xC3\xA9\xE3";
  auto random = tenon::test::generator();
  const int rounds = tenon::test::full_or("damaged documents", 20'000, 500'000);
  for (int round = 0; round < rounds; ++round) {
    std::string text = whole;
    for (int i = 0; i < 4; ++i) {
      const size_t at = random() % text.size();
      const char c = alphabet[random() % alphabet.size()];
      if (random() % 2 == 0)
        text.insert(at, 1, c);
      else if (random() % 2 == 0)
        text[at] = static_cast<char>(random());
      else
        text[at] = c;
    }
    const auto table = parse_toml("/x.toml", text);
    if (!table.ok()) CHECK(table.message().find('\n') == std::string_view::npos);
  }
}
