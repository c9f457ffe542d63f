// SPDX-License-Identifier: Apache-2.0
// The simulator against what comes out by hand.
#include "overlap/simulator.hpp"
#include "overlap/contention.hpp"
#include "steps.hpp"
#include "support/seed.hpp"

#include <doctest/doctest.h>

#include <algorithm>

using namespace tenon;
using overlap::Transfer;

namespace {

using Ends = std::vector<std::pair<double, double>>;

Ends run(const std::vector<Transfer>& transfers, uint32_t streams, double flows = 1, bool sync = false) {
  Ends out;
  const auto simulated = overlap::simulate(transfers, {.streams = streams, .flows = flows, .sync = sync}, 0);
  for (const overlap::Span& span : simulated.spans) out.emplace_back(span.start, span.end);
  return out;
}

Transfer ready_at(double ready, double latency, double work, uint32_t stream = 0) {
  return {.ready = ready, .latency = latency, .work = work, .stream = stream};
}

}  // namespace

TEST_CASE("simulator: on one stream collectives follow each other, and wait for what they send") {
  CHECK(run({ready_at(0, 1, 2), ready_at(1, 1, 2), ready_at(9, 1, 0)}, 1) == Ends{{0, 3}, {3, 6}, {9, 10}});
}

TEST_CASE("simulator: two streams hide each other's latency and share the bandwidth") {
  CHECK(run({ready_at(0, 1, 2, 0), ready_at(0, 1, 2, 1)}, 2) == Ends{{0, 5}, {0, 5}});
}

TEST_CASE("simulator: a link that carries two flows moves two at full speed") {
  CHECK(run({ready_at(0, 1, 2, 0), ready_at(0, 1, 2, 1)}, 2, 2) == Ends{{0, 3}, {0, 3}});
  CHECK(run({ready_at(0, 1, 2, 0), ready_at(0, 1, 2, 1)}, 2, 1.6) == Ends{{0, 3.5}, {0, 3.5}});
}

TEST_CASE("simulator: what comes later takes its share from then on") {
  CHECK(run({ready_at(0, 1, 4, 0), ready_at(2, 1, 1, 1)}, 2) == Ends{{0, 6}, {2, 5}});
}

TEST_CASE("simulator: a host that waits makes two streams one") {
  CHECK(run({ready_at(0, 1, 2, 0), ready_at(0, 1, 2, 1)}, 2, 2, true) == Ends{{0, 3}, {3, 6}});
}

TEST_CASE("simulator: nothing is issued before what stands ahead of it") {
  CHECK(run({ready_at(5, 1, 0, 0), ready_at(0, 1, 0, 1)}, 2) == Ends{{5, 6}, {5, 6}});
}

TEST_CASE("simulator: bytes that computing moves make it later, and what it makes ready") {
  const auto quarter =
      overlap::simulate(std::vector{ready_at(2, 0, 4), ready_at(5.75, 0, 1)}, {.contention = {0.25, 1}}, 8);
  CHECK(quarter.spans[0].start == 2);
  CHECK(quarter.spans[0].end == 6);
  CHECK(quarter.spans[1].start == 6.75);  // 5 computed by 6
  CHECK(quarter.progress.clock(2) == 2);
  CHECK(quarter.progress.clock(3.5) == 4);
  CHECK(quarter.progress.clock(8) == 9.25);
  CHECK(quarter.progress.computed(4) == 3.5);
  CHECK(quarter.progress.computed(9.25) == 8);
}

TEST_CASE("simulator: bytes are slower beside computing, and as quick as ever behind it") {
  const auto all = overlap::simulate(std::vector{ready_at(2, 0, 4)}, {.contention = {1, 2}}, 4);
  CHECK(all.progress.clock(4) == 6);
  CHECK(all.spans[0].end == 8);  // 2 of 4 moved by 6, and nothing in the way after
  const auto two = overlap::simulate(std::vector{ready_at(0, 0, 4, 0), ready_at(0, 0, 4, 1)},
                                     {.streams = 2, .flows = 2, .contention = {0.5, 1.5}}, 1e9);
  CHECK(two.spans[0].end == 6);
  CHECK(two.spans[1].end == 6);
  CHECK(two.progress.computed(6) == doctest::Approx(2));
}

TEST_CASE("simulator: beside computing a collective waits for a turn, which another stream may use") {
  constexpr Contention late{.delay_ns = 3};
  const auto one =
      overlap::simulate(std::vector{ready_at(0, 1, 2), ready_at(0, 1, 2)}, {.contention = late}, 8);
  CHECK(one.spans[0].end == 6);
  CHECK(one.spans[1].end ==
        11);  // 2 of the delay are over when computing is, and the rest is waited for no more
  CHECK(one.progress.clock(8) == 8);
  const auto two = overlap::simulate(std::vector{ready_at(0, 1, 2, 0), ready_at(2, 1, 2, 1)},
                                     {.streams = 2, .contention = late}, 8);
  CHECK(two.spans[0].end == 6);
  CHECK(two.spans[1].end == 8);
  CHECK(overlap::simulate(std::vector{ready_at(8, 1, 2)}, {.contention = late}, 8).spans[0].end == 11);
}

TEST_CASE("contention: a short collective tells the delay, a long one what slows bytes and what they cost") {
  const auto between = [](double short_ns, double long_ns, double computed) {
    return overlap::contention_between({.moved = 10, .ns = short_ns},
                                       {.moved = 100, .ns = long_ns, .computed = computed}, 5);
  };
  const Contention found = between(5 + 40 + 10 * 1.5, 5 + 40 + 100 * 1.5, 95);
  CHECK(found.delay_ns == doctest::Approx(40));
  CHECK(found.slowed == doctest::Approx(1.5));
  CHECK(found.occupies == doctest::Approx(1));
  // The long one was the quicker of the two: bytes are not slowed, and no delay is counted twice.
  const Contention quick = between(5 + 40 + 10, 5 + 100, 85);
  CHECK(quick.delay_ns == doctest::Approx(40));
  CHECK(quick.slowed == 1);
  CHECK(quick.occupies == doctest::Approx(0.2));
  CHECK_FALSE(between(5 + 10, 5 + 100, 105));
}

TEST_CASE("simulator: all that is asked of what computes is done, and no sooner than one could do it") {
  auto random = test::generator();
  for (int round = 0; round < 300; ++round) {
    std::vector<Transfer> transfers;
    const auto streams = static_cast<uint32_t>(test::between(random, 1, 3));
    const Contention contention{test::between(random, 0, 4) / 4.0, test::between(random, 1, 4) * 1.0,
                                test::between(random, 0, 3) * 1.0};
    double now = 0, work = 0;
    for (int i = test::between(random, 1, 20); i > 0; --i) {
      now += test::between(random, 0, 9);
      transfers.push_back(ready_at(now, test::between(random, 0, 5), test::between(random, 0, 9),
                                   static_cast<uint32_t>(i) % streams));
      work += transfers.back().work;
    }
    const double computing = now + test::between(random, 0, 50);
    const auto simulated =
        overlap::simulate(transfers, {.streams = streams, .contention = contention}, computing);
    double last = simulated.progress.clock(computing);
    CHECK(last >= computing);
    CHECK(last <= computing + contention.occupies * work + 1e-9);
    for (size_t i = 0; i < transfers.size(); ++i) {
      CHECK(simulated.spans[i].start >= simulated.progress.clock(transfers[i].ready) - 1e-9);
      last = std::max(last, simulated.spans[i].end);
    }
    CHECK(last >= computing + contention.occupies * work - 1e-9);
    for (double computed = 0; computed < computing; computed += 1.7)
      CHECK(simulated.progress.computed(simulated.progress.clock(computed)) == doctest::Approx(computed));
  }
}

TEST_CASE("simulator: nothing to send ends at once") {
  CHECK(run({}, 3).empty());
  CHECK(run({ready_at(4, 0, 0)}, 1) == Ends{{4, 4}});
}

TEST_CASE(
    "simulator: on one stream it is the recurrence, and more streams on the same link never move bytes "
    "faster") {
  auto random = test::generator();
  for (int round = 0; round < 300; ++round) {
    std::vector<Transfer> transfers;
    double now = 0, work = 0, first = 1e300;
    const auto streams = static_cast<uint32_t>(test::between(random, 1, 4));
    for (int i = test::between(random, 1, 30); i > 0; --i) {
      now += test::between(random, 0, 9);
      transfers.push_back(ready_at(now, test::between(random, 0, 5), test::between(random, 0, 9), 0));
      first = std::min(first, now);
      work += transfers.back().work;
    }
    double expected = 0;
    Ends by_hand;
    for (const Transfer& transfer : transfers) {
      const double start = std::max(expected, transfer.ready);
      expected = start + transfer.latency + transfer.work;
      by_hand.emplace_back(start, expected);
    }
    CHECK(run(transfers, 1) == by_hand);  // whole numbers: exact
    for (size_t i = 0; i < transfers.size(); ++i) transfers[i].stream = static_cast<uint32_t>(i) % streams;
    double last = 0;
    for (const auto& [start, over] : run(transfers, streams)) last = std::max(last, over);
    CHECK(last >= first + work - 1e-9);
    CHECK(last <= expected + 1e-9);
  }
}
