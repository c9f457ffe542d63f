// SPDX-License-Identifier: Apache-2.0
// The text form under random damage: whatever a text has become, it is refused with a place or read as a graph that reads
// again as itself. libFuzzer asks the same in tests/fuzz.
#include "fuzz/promises.hpp"
#include "fuzz/seeds.hpp"
#include "support/full.hpp"
#include "support/seed.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <iterator>
#include <vector>

using namespace tenon;
using namespace tenon::test;

namespace {

class Damage {
 public:
  Damage(std::mt19937_64& random, const std::vector<std::string>& texts) : random_(random), texts_(texts) {}

  std::string once(std::string text) {
    const size_t at = below(text.size() + 1), length = below(std::min<size_t>(text.size() - at, 12) + 1);
    switch (below(6)) {
      case 0:
        return text.erase(at, length);
      case 1:
        return text.insert(at, 1, static_cast<char>(below(256)));
      case 2:
        return text.replace(at, length, std::string(words_[below(std::size(words_))]));
      case 3:
        return text.insert(at, text.substr(below(text.size() + 1), length));
      case 4: {
        const std::string& other = texts_[below(texts_.size())];
        return text.replace(at, length, other.substr(below(other.size() + 1), 40));
      }
      default:
        return text.substr(0, at);
    }
  }

 private:
  size_t below(size_t end) { return std::uniform_int_distribution<size_t>(0, end - 1)(random_); }

  static constexpr std::string_view words_[] = {"%",
                                                "_",
                                                "=",
                                                "(",
                                                ")",
                                                "[",
                                                "]",
                                                "{",
                                                "}",
                                                ",",
                                                ":",
                                                "\"",
                                                "#",
                                                "\n",
                                                "-1",
                                                "0",
                                                "9223372036854775807",
                                                "1099511627776",
                                                "nan",
                                                "1e999",
                                                "f32",
                                                "bool",
                                                "f8e4m3",
                                                "0x",
                                                "end",
                                                "input ",
                                                "output ",
                                                "comm 0 = 3"};
  std::mt19937_64& random_;
  const std::vector<std::string>& texts_;
};

}  // namespace

TEST_CASE("text fuzz: every seed keeps what is promised") {
  const std::vector<std::string> texts = seeds();
  REQUIRE(texts.size() >= 5);
  size_t graphs = 0;
  for (const std::string& text : texts) {
    CAPTURE(text);
    CHECK(broken_graph_promise(text) == "");
    graphs += Graph::parse(text).ok() ? 1 : 0;
  }
  CHECK(graphs >= 5);
}

TEST_CASE("text fuzz: damaged texts are refused with a place or read as they say") {
  const std::vector<std::string> texts = seeds();
  REQUIRE_FALSE(texts.empty());
  auto random = generator();
  Damage damage(random, texts);
  const int rounds = full_or("damaged texts", 4'000, 400'000);
  int read = 0;
  for (int i = 0; i < rounds; ++i) {
    std::string text = texts[random() % texts.size()];
    for (size_t k = 1 + random() % 4; k > 0; --k) text = damage.once(std::move(text));
    const std::string broken = broken_graph_promise(text);
    if (!broken.empty()) FAIL(broken << "\n" << text);
    read += Graph::parse(text).ok() ? 1 : 0;
  }
  std::printf("%d of them are graphs still\n", read);
  CHECK(read > 0);
  CHECK(read < rounds);
}
