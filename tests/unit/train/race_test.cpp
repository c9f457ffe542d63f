// SPDX-License-Identifier: Apache-2.0
// race_test.cpp: which settings are taken, where the times are made up.
#include "train/race.hpp"

#include "support/seed.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <utility>

using namespace tenon;
using train::Rounds;
using train::Setting;
using train::Settings;

namespace {

// A step takes 100 ms, times what each setting makes of it.
struct Made {
  std::map<std::string, double> factors{};
  std::map<std::pair<std::string, std::string>, double> together{};  // what two make of each other
  double noise = 0;  // every other round the later side is slower by that part
  std::string broken{};
  int comparisons = 0;

  double of(const Settings& settings) const {
    double out = 100;
    for (const Setting& one : settings) {
      out *= factors.at(one.words());
      for (const Setting& other : settings)
        if (const auto found = together.find({one.words(), other.words()}); found != together.end())
          out *= found->second;
    }
    return out;
  }
  train::Race run(const Settings& settings) {
    const train::Compare compare = [this](const Settings& without, const Settings& with) -> Result<Rounds> {
      ++comparisons;
      Rounds out;
      if (with.back().words() == broken) return Rounds{.why_not = "there is no such kernel"};
      for (int round = 0; round < 9; ++round) {
        out.without.push_back(of(without));
        out.with.push_back(of(with) * (round % 2 == 0 ? 1 : 1 + noise));
      }
      return out;
    };
    auto out = train::race(settings, compare);
    REQUIRE(out.ok());
    return std::move(out).take();
  }
};

std::string words(const Settings& settings) {
  std::string out;
  for (const Setting& one : settings) out += one.words() + "; ";
  return out;
}

}  // namespace

TEST_CASE("race: what wins alone is taken, most first, if it wins beside the others too") {
  Made made{.factors = {{"a = 1", 0.9}, {"b = 1", 0.5}, {"c = 1", 1.2}}};
  const train::Race race = made.run({{"a", "1"}, {"b", "1"}, {"c", "1"}});
  CHECK(words(race.taken) == "b = 1; a = 1; ");
  CHECK(race.before_ms == doctest::Approx(100));
  CHECK(race.after_ms == doctest::Approx(45));
  CHECK(race.trials.size() == 4);
  CHECK(race.trials[3].setting == "a = 1");
  CHECK(race.trials[3].beside == "b = 1");
  CHECK(race.trials[3].is_taken);
  CHECK(race.trials[2].ratio == doctest::Approx(1 / 1.2));
}

TEST_CASE("race: of an option's values one is taken, the best") {
  Made made{.factors = {{"a = 1", 0.9}, {"a = 2", 0.7}, {"a = 4", 0.8}}};
  const train::Race race = made.run({{"a", "1"}, {"a", "2"}, {"a", "4"}});
  CHECK(words(race.taken) == "a = 2; ");
  CHECK(made.comparisons == 3);
}

TEST_CASE("race: what is within noise, or faster in some rounds only, is left") {
  Made slight{.factors = {{"a = 1", 0.99}}};
  CHECK(slight.run({{"a", "1"}}).taken.empty());
  Made moody{.factors = {{"a = 1", 0.9}}, .noise = 0.3};
  const train::Race race = moody.run({{"a", "1"}});
  CHECK(race.taken.empty());
  CHECK(race.after_ms == race.before_ms);
}

TEST_CASE("race: a setting that cannot be says why, and the others go on") {
  Made made{.factors = {{"a = 1", 0.5}, {"b = 1", 0.5}}, .broken = "a = 1"};
  const train::Race race = made.run({{"a", "1"}, {"b", "1"}});
  CHECK(words(race.taken) == "b = 1; ");
  CHECK(race.trials[0].why_not == "there is no such kernel");
  CHECK(race.trials[0].ratio == 0);
  CHECK(race.before_ms == doctest::Approx(100));
}

TEST_CASE("race: a failure of the comparison is one of the race") {
  const train::Compare fails = [](const Settings&, const Settings&) -> Result<Rounds> {
    return Status(TN_DEVICE_LOST, "gone");
  };
  CHECK(train::race(Settings{{"a", "1"}}, fails).code() == TN_DEVICE_LOST);
}

TEST_CASE("race: however settings help and hinder each other, none alone is 3 % faster than what is taken") {
  std::mt19937_64 random = tenon::test::generator();
  std::uniform_real_distribution<double> factor(0.7, 1.3);
  for (int draw = 0; draw < 500; ++draw) {
    Settings all;
    Made made;
    for (const char* option : {"a", "b", "c", "d"}) {
      for (const char* value : {"1", "2"}) {
        all.push_back({option, value});
        made.factors[all.back().words()] = factor(random);
        for (const auto& [other, alone] : made.factors)
          made.together[{other, all.back().words()}] = factor(random);
      }
    }
    for (const auto& [words, alone] : made.factors) made.together.erase({words, words});
    double best = 100;
    for (const Setting& one : all) best = std::min(best, made.of({one}));
    CAPTURE(draw);
    CHECK(made.of(made.run(all).taken) <= 1.03 * best);
  }
}
