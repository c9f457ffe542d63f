// SPDX-License-Identifier: Apache-2.0
// Plans in words, side by side, and as pictures.
#include "steps.hpp"

#include <doctest/doctest.h>

#include <algorithm>

using namespace tenon;

namespace {

const CommTarget target = test::over(CostTable::linear(test::ms, 1), 2);

StepProfile three_layers() {
  StepProfile step = test::chain({250'000, 250'000, 250'000}, test::ms);
  step.gradients[0].name = "conv.weight";
  step.gradients[1].name = "fc.weight";
  step.gradients[2].name = "fc.bias";
  step.forward_ns = 2 * test::ms;
  step.update_ns = test::ms;
  return step;
}

bool says(const std::string& text, const std::string& words) { return text.find(words) != std::string::npos; }

size_t count(const std::string& text, const std::string& words) {
  size_t out = 0;
  for (size_t at = text.find(words); at != std::string::npos; at = text.find(words, at + 1)) ++out;
  return out;
}

}  // namespace

TEST_CASE("explain: says what is fused, what it takes, what updates wait for, and every bucket") {
  const CommPlan plan = test::planned(three_layers(), target, {.mode = BucketRule::per_tensor});
  const std::string text = plan.explain();
  CHECK_MESSAGE(
      says(text, "paper: 3 all-reduce operators, after fusion 3; mode per_tensor, 1 stream, 2 ranks, plan "),
      text);
  CHECK_MESSAGE(says(text, "predicted  step 10.00 ms; communication 6.00 ms, 33 % hidden, 4.00 ms exposed\n"),
                text);
  CHECK_MESSAGE(says(text, "updates    wait for the last bucket: possibly uneven batches\n"), text);
  CHECK_MESSAGE(says(text, "0 bytes copied\n"), text);
  CHECK_MESSAGE(says(text,
                     "\n  1       0       1  976.6 KiB  f32       flat       2.00 ms    3.00 ms    5.00 ms  "
                     "fc.weight\n"),
                text);
}

TEST_CASE("explain: says by how much backward is held up where what computes sends, and draws it so") {
  CommTarget busy = target;
  busy.contention = {0.5, 2};
  const CommPlan plan = test::planned(three_layers(), busy, {.mode = BucketRule::per_tensor});
  const std::string text = plan.explain();
  // The first bucket is ready at 1 ms and moves bytes from 2 ms on: the last of 3 ms of backward take 1.33.
  CHECK_MESSAGE(says(text,
                     "backward   over at 3.33 ms: bytes take 2.0 times as long beside it, and hold it up by "
                     "50 % of what "
                     "they take alone\n"),
                text);
  CHECK(plan.predicted().backward_ns == doctest::Approx(10.0 / 3 * test::ms));
  CHECK_FALSE(says(text, "later beside it"));
  busy.contention.delay_ns = 0.25 * test::ms;
  const std::string late = test::planned(three_layers(), busy, {.mode = BucketRule::per_tensor}).explain();
  CHECK_MESSAGE(says(late, "           a collective's bytes begin to move 250.0 µs later beside it\n"), late);
  CHECK_FALSE(says(test::planned(three_layers(), target).explain(), "backward   over"));
}

TEST_CASE("explain: says when averages are there, where sums are divided") {
  CommTarget dividing = target;
  dividing.division = {1, true};
  const CommPlan plan = test::planned(three_layers(), dividing, {.mode = BucketRule::per_tensor});
  CHECK_MESSAGE(says(plan.explain(),
                     "averages   there at 8.00 ms, the last sum at 7.00 ms: divided bucket by bucket\n"),
                plan.explain());
  CHECK_FALSE(says(test::planned(three_layers(), target).explain(), "averages   "));
}

TEST_CASE("explain: options that could not hold are told with their reason") {
  const CommPlan plan = test::planned(three_layers(), target, {.nccl_comm_num = 7});
  CHECK(says(plan.explain(), "option     nccl_comm_num = 7 → 4: paper takes no more\n"));
}

TEST_CASE("explain: no plan has no buckets and says so") {
  CHECK_FALSE(CommPlan());
  CHECK(CommPlan().buckets().empty());
  CHECK(says(CommPlan().explain(), "no plan: 0 all-reduce operators, after fusion 0"));
  CHECK(CommPlan().first_difference(CommPlan()) == "");
}

TEST_CASE("difference: the first is named, with both sides") {
  const CommPlan plan = test::planned(three_layers(), target, {.mode = BucketRule::per_tensor});
  StepProfile other = three_layers();
  other.gradients[1].elements = 7;
  CHECK(plan.first_difference(test::planned(other, target)) ==
        "gradient 1: 'fc.weight', f32, 250000 elements here, 'fc.weight', f32, 7 elements there");
  CHECK(plan.first_difference(test::planned(three_layers(), target, {.mode = BucketRule::none})) ==
        "the count of buckets: 3 here, 1 there");
  const CommPlan turned =
      test::planned(three_layers(), target, {.mode = BucketRule::per_tensor, .nccl_comm_num = 2});
  CHECK(plan.first_difference(turned) == "the count of streams: 1 here, 2 there");
  StepProfile late = three_layers();
  late.gradients[2].ready_ns = 9 * test::ms;
  CHECK(says(plan.first_difference(test::planned(late, target, {.mode = BucketRule::per_tensor})),
             "bucket 0 (fc.bias here, fc.weight there): the place in the list of a member: 2 here, 1 there"));
}

TEST_CASE("difference: as lines that went and lines that came, and what it does to the step") {
  const CommPlan fine = test::planned(three_layers(), target, {.mode = BucketRule::per_tensor});
  const CommPlan coarse = test::planned(three_layers(), target, {.mode = BucketRule::none});
  CHECK(fine.diff(coarse) ==
        "- fc.bias, 976.6 KiB, stream 0, flat\n"
        "- fc.weight, 976.6 KiB, stream 0, flat\n"
        "- conv.weight, 976.6 KiB, stream 0, flat\n"
        "+ fc.bias … conv.weight, 2.9 MiB, stream 0, flat\n"
        "  step 10.00 ms → 10.00 ms, exposed 4.00 ms → 4.00 ms\n");
}

TEST_CASE("picture: lanes of text show what runs when") {
  const CommPlan plan = test::planned(three_layers(), target, {.mode = BucketRule::per_tensor});
  CHECK(plan.timeline(60) ==
        "compute   =backward======                    -----==========\n"
        "stream 0      =0========-1--------=2=========\n"
        "          0 … 10.00 ms; 4.00 ms exposed\n");
}

TEST_CASE("picture: an SVG of its own with a bar for each bucket and each gather") {
  for (const bool sharded : {false, true}) {
    const CommPlan plan =
        test::planned(three_layers(), target, {.mode = BucketRule::per_tensor, .sharded = sharded});
    const std::string svg = plan.svg();
    CHECK(svg.starts_with("<svg xmlns="));
    CHECK(svg.ends_with("</svg>\n"));
    CHECK(count(svg, "<rect class=\"send\"") == 3);
    CHECK(count(svg, "<rect class=\"gather\"") == (sharded ? 3 : 0));
    CHECK(count(svg, "<rect class=\"exposed\"") == 1);
    CHECK(count(svg, "<text ") == count(svg, "</text>"));
    CHECK_FALSE(says(svg, "nan"));
  }
}
