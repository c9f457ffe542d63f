// SPDX-License-Identifier: Apache-2.0
// summary_test.cpp: what hand-made traces add up to.
#include "traces.hpp"

#include <doctest/doctest.h>

using namespace tenon;
using namespace tenon::test;

TEST_CASE("summary: communication that no kernel of its rank covers is exposed") {
  const Trace trace = one_rank();
  const TraceSummary sums = summarize(trace);
  REQUIRE(sums.ranks.size() == 1);
  const TraceTotals& rank = sums.ranks[0];
  CHECK(rank.wall_ns == 700);
  CHECK(rank.compute_ns == 600);
  CHECK(rank.communication_ns == 350);
  CHECK(rank.exposed_ns == 50);
  CHECK(rank.overlap() == doctest::Approx(6.0 / 7));
  CHECK(rank.wait_ns == 100);
  CHECK(rank.copy_ns == 0);
  CHECK(rank.busy_ns == 650);
  CHECK(rank.busy() == doctest::Approx(650.0 / 700));
  CHECK(exposed_communication(trace, 0) == std::vector<TraceInterval>{{500, 550}});
  CHECK(exposed_communication(trace, 7).empty());
}

TEST_CASE("summary: kernels of another rank cover nothing") {
  Trace trace;
  add(trace, 0, "gradients", TraceKind::collective, 0, 100);
  add(trace, 1, "compute", TraceKind::kernel, 0, 100);
  add(trace, 1, "gradients", TraceKind::collective, 50, 150);
  const TraceSummary sums = summarize(trace);
  REQUIRE(sums.ranks.size() == 2);
  CHECK(sums.ranks[0].exposed_ns == 100);
  CHECK(sums.ranks[0].overlap() == 0);
  CHECK(sums.ranks[1].exposed_ns == 50);
  CHECK(sums.all.exposed_ns == 150);
  CHECK(sums.all.communication_ns == 200);
  CHECK(sums.all.overlap() == 0.25);
  CHECK(sums.all.wall_ns == 250);
}

TEST_CASE("summary: events at the same time count once, those of the host in nothing") {
  Trace trace;
  add(trace, 0, "a", TraceKind::kernel, 0, 100);
  add(trace, 0, "b", TraceKind::kernel, 50, 120);
  add(trace, 0, "c", TraceKind::copy, 110, 130);
  add(trace, 0, "", TraceKind::host, -500, 900);
  const TraceTotals rank = summarize(trace).ranks.at(0);
  CHECK(rank.compute_ns == 120);
  CHECK(rank.copy_ns == 20);
  CHECK(rank.busy_ns == 130);
  CHECK(rank.wall_ns == 130);
  CHECK(rank.overlap() == 1);  // of none
}

TEST_CASE("summary: a bucket has the median of its times, with the least and the most") {
  Trace trace;
  for (const int64_t length : {30, 10, 20, 100}) {
    TraceEvent& event = add(trace, 0, "gradients", TraceKind::collective, 0, length);
    event.name = "bucket 3";
    event.bucket = 3;
    event.bytes = 64;
    event.predicted_ns = 20;
  }
  add(trace, 0, "gradients", TraceKind::collective, 0, 7).bucket = 1;
  add(trace, 0, "compute", TraceKind::kernel, 0, 9).bucket = 1;  // no collective
  const TraceSummary sums = summarize(trace);
  REQUIRE(sums.buckets.size() == 2);
  CHECK(sums.buckets[0].bucket == 1);
  CHECK(sums.buckets[0].count == 1);
  CHECK(sums.buckets[0].median_ns == 7);
  CHECK(sums.buckets[0].predicted_ns == 0);
  const TraceBucket& third = sums.buckets[1];
  CHECK(third.bucket == 3);
  CHECK(third.bytes == 64);
  CHECK(third.count == 4);
  CHECK(third.median_ns == 25);
  CHECK(third.least_ns == 10);
  CHECK(third.most_ns == 100);
  CHECK(third.predicted_ns == 20);
}

TEST_CASE("summary: a bucket that is summed and gathered has a row for either") {
  Trace trace;
  for (const auto& [name, length] :
       {std::pair{"gather of bucket 0", 40}, {"bucket 0", 10}, {"bucket 0", 20}}) {
    TraceEvent& event = add(trace, 0, "gradients", TraceKind::collective, 0, length);
    event.name = name;
    event.bucket = 0;
    event.predicted_ns = 30;
  }
  const TraceSummary sums = summarize(trace);
  REQUIRE(sums.buckets.size() == 2);
  CHECK(sums.buckets[0].name == "bucket 0");
  CHECK(sums.buckets[0].count == 2);
  CHECK(sums.buckets[0].median_ns == 15);
  CHECK(sums.buckets[1].name == "gather of bucket 0");
  CHECK(sums.buckets[1].count == 1);
  CHECK(sums.buckets[1].median_ns == 40);
  const std::string text = sums.text();
  CHECK(text.find("least           most  collective\n") != std::string::npos);
  CHECK(text.find("  gather of bucket 0\n") != std::string::npos);
}

TEST_CASE("summary: its text has a line for each rank, one for all, and one for each bucket") {
  Trace trace = one_rank();
  const std::string one = summarize(trace).text();
  CHECK(one.find("85.7 %") != std::string::npos);   // overlap
  CHECK(one.find("125.0 %") != std::string::npos);  // of bucket 0's prediction
  CHECK(one.find("  all") == std::string::npos);
  add(trace, 4, "compute", TraceKind::kernel, 0, 2'000'000);
  trace.dropped = 2;
  const std::string two = summarize(trace).text();
  CHECK(two.find("     4        2.00 ms") != std::string::npos);
  CHECK(two.find("   all") != std::string::npos);
  CHECK(two.find("note: 2 events dropped") != std::string::npos);
}

TEST_CASE("summary: of nothing is nothing") {
  const TraceSummary sums = summarize({});
  CHECK(sums.ranks.empty());
  CHECK(sums.buckets.empty());
  CHECK(sums.all.busy() == 0);
  CHECK(sums.text().find("rank") != std::string::npos);
}
