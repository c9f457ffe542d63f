// SPDX-License-Identifier: Apache-2.0
// Random strategies, written and read again: every member has its value, by text, by file, and word by word.
#include <tenon/strategy.hpp>

#include "read.hpp"
#include "strategy/options.hpp"
#include "support/full.hpp"
#include "support/seed.hpp"
#include "support/temp_folder.hpp"

#include <doctest/doctest.h>

#include <cmath>

using namespace tenon;

namespace {

using Random = std::mt19937_64;

uint64_t below(Random& random, uint64_t end) { return random() % end; }

void draw(Random& random, bool& value, double, double) { value = below(random, 2) != 0; }
void draw(Random& random, uint32_t& value, double low, double high) {
  const auto first = static_cast<uint64_t>(low), last = static_cast<uint64_t>(high);
  const uint64_t edges[] = {first, last, first + below(random, 100) % (last - first + 1),
                            first + below(random, last - first + 1)};
  value = static_cast<uint32_t>(edges[below(random, 4)]);
}
void draw(Random& random, double& value, double low, double high) {
  const double part = static_cast<double>(random() >> 11) * 0x1p-53;
  const double drawn[] = {low, high, low + (high - low) * part,
                          low * std::pow(high / std::max(low, 1e-9), part)};
  value = std::min(std::max(drawn[below(random, 4)], low), high);
}
void draw(Random& random, std::string& value, double, double) {
  const char* const pieces[] = {"a", "fc1.weight", "*", "\"", "\\", "é", "\n", "\x7f", " ", "auto", "#", "'"};
  value = "n";
  for (uint64_t i = below(random, 5); i > 0; --i) value += pieces[below(random, std::size(pieces))];
}
void draw(Random& random, passes::AmpLevel& value, double, double) {
  value = below(random, 2) == 0 ? passes::AmpLevel::O1 : passes::AmpLevel::O2;
}
void draw(Random& random, DType& value, double, double) { value = below(random, 2) == 0 ? f16 : bf16; }
void draw(Random& random, BucketRule& value, double, double) {
  value = static_cast<BucketRule>(below(random, static_cast<uint64_t>(BucketRule::none) + 1));
}
template <class T>
void draw(Random& random, std::optional<T>& value, double low, double high) {
  value.reset();
  if (below(random, 3) != 0) draw(random, value.emplace(), low, high);
}
template <class T>
void draw(Random& random, std::vector<T>& value, double low, double high) {
  value.resize(below(random, 4));
  for (T& item : value) draw(random, item, low, high);
}
// Lists that name two nodes at least, which alone are read.
void draw(Random& random, Strategy::Groups& value, double low, double high) {
  value.resize(below(random, 4));
  for (Strategy::Names& names : value) {
    draw(random, names, low, high);
    names.insert(names.end(), {"first", "second"});
  }
}

Strategy drawn(Random& random) {
  Strategy out;
  constexpr double above_zero = Strategy::above_zero;
#define TN_OPTION(section, type, member, name, aliases, standard, documents, least, most, ...) \
  draw(random, out.member, least, most);
#include <tenon/strategy.def>
#undef TN_OPTION
  return out;
}

// The first member in which they differ, or "".
std::string difference(const Strategy& one, const Strategy& other) {
#define TN_OPTION(section, type, member, ...) \
  if (one.member != other.member) return #member;
#include <tenon/strategy.def>
#undef TN_OPTION
  return "";
}

}  // namespace

TEST_CASE("strategy: random ones read back as the same, by text, by file and word by word") {
  const int rounds = test::full_or("strategies", 60, 3000);
  Random random = test::generator();
  const test::TempFolder folder;
  for (int round = 0; round < rounds; ++round) {
    const Strategy first = drawn(random);
    const std::string text = first.text();
    CAPTURE(text);
    REQUIRE(first.check().ok());
    const Strategy again = test::read(text);
    REQUIRE(difference(first, again) == "");
    REQUIRE(again.text() == text);
    if (round % 10 != 0) continue;
    REQUIRE(first.save(folder / "s.toml").ok());
    const auto loaded = Strategy::load(folder / "s.toml");
    REQUIRE_MESSAGE(loaded.ok(), loaded.message());
    REQUIRE(difference(first, *loaded) == "");
    Strategy by_word;
    for (const strategy::Option& option : strategy::options()) {
      const Status set = by_word.set(option.name, option.word(first));
      REQUIRE_MESSAGE(set.ok(), set.message());
    }
    REQUIRE(difference(first, by_word) == "");
  }
}

TEST_CASE("strategy: random ones differ, so equality above says something") {
  Random random = test::generator();
  const Strategy one = drawn(random), other = drawn(random);
  CHECK(difference(one, other) != "");
  CHECK(difference(one, Strategy{}) != "");
}

TEST_CASE("strategy: of random ones whatever is not as asked has a reason, and whatever is has none") {
  const int rounds = test::full_or("strategies", 30, 1000);
  Random random = test::generator();
  for (int round = 0; round < rounds; ++round) {
    for (const Strategy::Effective& row : drawn(random).effective()) {
      CAPTURE(row.option);
      CAPTURE(row.asked);
      REQUIRE((row.holds == row.asked) == row.reason.empty());
    }
  }
}
