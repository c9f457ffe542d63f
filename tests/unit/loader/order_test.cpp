// SPDX-License-Identifier: Apache-2.0
// Which samples a step has: the same for any number of ranks, each once an epoch, others in the next.
#include "loader/order.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <numeric>
#include <set>

using namespace tenon;
using namespace tenon::loader;

namespace {

LoaderOptions options(uint64_t batch, uint32_t ranks = 1, uint32_t rank = 0, Uneven uneven = Uneven::pad) {
  return {.batch = batch, .rank = rank, .ranks = ranks, .uneven = uneven, .seed = 7};
}

// What one rank has of a step.
std::vector<uint64_t> of_rank(uint64_t count, const LoaderOptions& asked, Cursor at, Share* share = nullptr) {
  Order order(count, asked);
  std::vector<uint64_t> out(asked.batch);
  const Share had = order.samples(at, out);
  out.resize(had.filled);
  if (share != nullptr) *share = had;
  return out;
}

// What all ranks have of it, one after the other.
std::vector<uint64_t> of_all(uint64_t count, LoaderOptions asked, Cursor at) {
  std::vector<uint64_t> out;
  for (asked.rank = 0; asked.rank < asked.ranks; ++asked.rank) {
    const auto part = of_rank(count, asked, at);
    out.insert(out.end(), part.begin(), part.end());
  }
  return out;
}

std::vector<uint64_t> sorted(std::vector<uint64_t> numbers) {
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

std::vector<uint64_t> counting(uint64_t count) {
  std::vector<uint64_t> out(count);
  std::iota(out.begin(), out.end(), uint64_t{0});
  return out;
}

std::vector<uint64_t> epoch_of(uint64_t count, const LoaderOptions& asked, uint64_t epoch) {
  std::vector<uint64_t> out;
  for (uint64_t step = 0; step < Order(count, asked).steps(); ++step) {
    const auto part = of_all(count, asked, {epoch, step});
    out.insert(out.end(), part.begin(), part.end());
  }
  return out;
}

}  // namespace

TEST_CASE(
    "order: one rank of 64 and four of 16 see the same samples in each step, and however the rest is dealt "
    "with") {
  for (const Uneven uneven : {Uneven::pad, Uneven::fixed, Uneven::join}) {
    CAPTURE(name(uneven));
    for (uint64_t epoch = 0; epoch < 3; ++epoch) {
      const uint64_t steps = Order(1797, options(64, 1, 0, uneven)).steps();
      CHECK(steps == Order(1797, options(16, 4, 3, uneven)).steps());
      for (uint64_t step = 0; step < steps; ++step)
        CHECK(of_all(1797, options(64, 1, 0, uneven), {epoch, step}) ==
              of_all(1797, options(16, 4, 0, uneven), {epoch, step}));
    }
  }
}

TEST_CASE("order: an epoch has each sample once, in another order than the next and than another seed's") {
  const LoaderOptions asked = options(10, 2, 0, Uneven::join);
  const auto first = epoch_of(173, asked, 0), second = epoch_of(173, asked, 1);
  CHECK(sorted(first) == counting(173));
  CHECK(sorted(second) == counting(173));
  CHECK(first != second);
  CHECK(first != counting(173));
  LoaderOptions other = asked;
  other.seed = 8;
  CHECK(epoch_of(173, other, 0) != first);
}

TEST_CASE("order: every permutation of four samples comes, about as often as the others") {
  std::map<std::vector<uint64_t>, int> seen;
  Order order(4, options(4));
  std::vector<uint64_t> out(4);
  for (uint64_t epoch = 0; epoch < 2400; ++epoch) {
    order.samples({epoch, 0}, out);
    ++seen[out];
  }
  CHECK(seen.size() == 24);
  // 100 are expected of each, with a deviation of 10; the seed is fixed, so this holds or does not.
  for (const auto& [permutation, times] : seen) CHECK(std::abs(times - 100) < 50);
}

TEST_CASE("order: without shuffling samples come as they are, in every epoch") {
  LoaderOptions asked = options(5, 2, 0, Uneven::join);
  asked.shuffle = false;
  CHECK(epoch_of(23, asked, 0) == counting(23));
  CHECK(epoch_of(23, asked, 9) == counting(23));
}

TEST_CASE("order: any step can be asked for at any time") {
  Order walked(100, options(8)), jumping(100, options(8));
  std::vector<uint64_t> expected(8), got(8);
  for (uint64_t epoch = 0; epoch < 3; ++epoch) {
    for (uint64_t step = 0; step < walked.steps(); ++step) {
      walked.samples({epoch, step}, expected);
      jumping.samples({5, 1}, got);
      jumping.samples({epoch, step}, got);
      CHECK(got == expected);
    }
  }
}

TEST_CASE("order: pad gives every rank as many full batches, and says how many samples are repeated") {
  const LoaderOptions asked = options(4, 3);  // 26 = 2 · 12 + 2
  CHECK(Order(26, asked).steps() == 3);
  const uint64_t real[] = {2, 0, 0};
  const auto epoch = epoch_of(26, asked, 0);
  REQUIRE(epoch.size() == 36);
  CHECK(sorted({epoch.begin(), epoch.begin() + 26}) == counting(26));
  CHECK(std::equal(epoch.begin() + 26, epoch.end(), epoch.begin()));  // from the epoch's start
  for (uint32_t rank = 0; rank < 3; ++rank) {
    Share share;
    of_rank(26, options(4, 3, rank), {0, 2}, &share);
    CHECK(share.filled == 4);
    CHECK(share.real == real[rank]);
  }
}

TEST_CASE("order: pad goes round more than once where a step has more places than there are samples") {
  const auto step = of_all(3, options(4, 2), {0, 0});
  REQUIRE(step.size() == 8);
  for (size_t i = 3; i < 8; ++i) CHECK(step[i] == step[i % 3]);
}

TEST_CASE("order: fixed leaves the rest out, others in each epoch") {
  const LoaderOptions asked = options(4, 3, 0, Uneven::fixed);
  CHECK(Order(26, asked).steps() == 2);
  std::set<std::vector<uint64_t>> left_out;
  for (uint64_t epoch = 0; epoch < 4; ++epoch) {
    const auto used = sorted(epoch_of(26, asked, epoch));
    CHECK(used.size() == 24);
    CHECK(std::adjacent_find(used.begin(), used.end()) == used.end());
    left_out.insert(used);
  }
  CHECK(left_out.size() > 1);
  CHECK(Order(11, asked).steps() == 0);
}

TEST_CASE("order: join makes the last batches shorter, down to none") {
  const uint64_t expected[] = {4, 1, 0};  // 29 = 2 · 12 + 5
  for (uint32_t rank = 0; rank < 3; ++rank) {
    Share share;
    CHECK(of_rank(29, options(4, 3, rank, Uneven::join), {0, 2}, &share).size() == expected[rank]);
    CHECK(share.real == expected[rank]);
  }
  CHECK(sorted(epoch_of(29, options(4, 3, 0, Uneven::join), 0)) == counting(29));
}

TEST_CASE("order: after an epoch's last step comes the next one's first") {
  const Order order(26, options(4, 3));
  CHECK(order.after({0, 0}) == Cursor{0, 1});
  CHECK(order.after({0, 2}) == Cursor{1, 0});
}
