// SPDX-License-Identifier: Apache-2.0
// The tail: what each rank writes, summed in any order in float32, reads back exactly.
#include "overlap/arena.hpp"
#include "steps.hpp"
#include "support/seed.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <numeric>

using namespace tenon;

namespace {

struct Rank {
  uint64_t samples = 0;
  bool found_inf = false, done = false;
  std::vector<bool> used{};
};

// Sums as a ring, a tree or anything else might: two at a time, in random order.
std::vector<float> summed(std::vector<std::vector<float>> words, std::mt19937_64& random) {
  while (words.size() > 1) {
    std::shuffle(words.begin(), words.end(), random);
    std::vector<float> last = std::move(words.back());
    words.pop_back();
    std::transform(last.begin(), last.end(), words.back().begin(), words.back().begin(), std::plus<float>());
  }
  return words.front();
}

}  // namespace

TEST_CASE("tail: counts of samples, infinities and uses survive the sum of 1 to 3,000 ranks") {
  auto random = test::generator();
  for (const uint32_t ranks : {1u, 2u, 3u, 16u, 63u, 64u, 1000u, 3000u}) {
    const auto parameters = static_cast<uint32_t>(test::between(random, 1, 40));
    const CommTail tail = overlap::tail_for(ranks, parameters);
    std::vector<std::vector<float>> words;
    CommTail::Reading expected;
    expected.ranks_using.assign(parameters, 0);
    for (uint32_t r = 0; r < ranks; ++r) {
      Rank rank{.samples = r % 3 == 0 ? tail.max_samples() : random() % (tail.max_samples() + 1)};
      if (ranks == 1) rank.samples = 123'456'789;
      rank.found_inf = test::between(random, 0, 1) == 1;
      for (uint32_t i = 0; i < parameters; ++i)
        rank.used.push_back(i == 0 || test::between(random, 0, 1) == 1);
      rank.done = test::between(random, 0, 1) == 1;
      const std::vector<uint8_t> used(rank.used.begin(), rank.used.end());
      words.emplace_back(tail.words());
      const Status written = tail.write(words.back(), rank.samples, rank.found_inf, used, rank.done);
      REQUIRE_MESSAGE(written.ok(), written.message());
      expected.ranks_done += rank.done ? 1 : 0;
      expected.samples += rank.samples;
      expected.ranks_with_inf += rank.found_inf ? 1 : 0;
      for (uint32_t i = 0; i < parameters; ++i) expected.ranks_using[i] += rank.used[i] ? 1 : 0;
    }
    const auto found = tail.read(summed(std::move(words), random));
    REQUIRE_MESSAGE(found.ok(), found.message());
    CHECK(found->samples == expected.samples);
    CHECK(found->ranks_with_inf == expected.ranks_with_inf);
    CHECK(found->ranks_using == expected.ranks_using);
    CHECK(found->ranks_done == expected.ranks_done);
  }
}

TEST_CASE("tail: many parameters share a word") {
  // One field for each, and one for the ranks that are done.
  CHECK(overlap::tail_for(2, 119).words() == 4 + 10);  // fields of two bits
  CHECK(overlap::tail_for(2, 120).words() == 4 + 11);
  CHECK(overlap::tail_for(16, 161).words() == 4 + 41);    // of five
  CHECK(overlap::tail_for(60000, 10).words() == 4 + 11);  // of sixteen
}

TEST_CASE("tail: what cannot be told is refused") {
  const CommTail tail = overlap::tail_for(3000, 2);
  CHECK(std::string(tail.write(tail.max_samples() + 1, false, {true, true}).message())
            .find("samples on one rank, at most") != std::string::npos);
  CHECK(tail.write(1, false, {true}).message() == "'used' speaks of 1 parameters, the plan of 2");
  const float infinite = std::numeric_limits<float>::infinity();
  CHECK(tail.read(std::vector<float>(tail.words() + 1)).message() == "the tail has 6 words, not 7");
  CHECK(std::string(tail.read(std::vector<float>{0, 0, 0, infinite, 0, 0}).message())
            .find("word 3 of the tail is inf") == 0);
  CHECK(tail.read(std::vector<float>{0, 0, 0, -1, 0, 0}).code() == TN_INVALID);
}

TEST_CASE("tail: words go where the caller wants them, over what was there, or nothing is written") {
  const CommTail tail = overlap::tail_for(5, 3);
  std::vector<float> words(tail.words(), 7.0f);
  const std::vector<uint8_t> used{1, 0, 9};
  REQUIRE(tail.write(words, 1'000'003, true, used).ok());
  CHECK(words == *tail.write(1'000'003, true, {true, false, true}));
  CHECK(tail.write(std::span(words).first(2), 1, false, used).code() == TN_INVALID);
  CHECK(tail.write(words, 1, false, std::span(used).first(2)).code() == TN_INVALID);
  CHECK(words == *tail.write(1'000'003, true, {true, false, true}));
}
