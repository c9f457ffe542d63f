// SPDX-License-Identifier: Apache-2.0
// file_test.cpp: a trace survives its file, is what Chrome's viewer reads, and comes together from several.
#include "traces.hpp"

#include "support/full.hpp"
#include "support/seed.hpp"
#include "support/temp_folder.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <random>

using namespace tenon;
using namespace tenon::test;

namespace {

void check_same(const Trace& found, const Trace& expected) {
  CHECK(found.lanes == expected.lanes);
  CHECK(found.events == expected.events);
  CHECK(found.clock == expected.clock);
  CHECK(found.utc_ns == expected.utc_ns);
  CHECK(found.dropped == expected.dropped);
  CHECK(found.notes == expected.notes);
}

Trace reread(const Trace& trace) {
  auto read = Trace::parse(trace.json());
  REQUIRE_MESSAGE(read.ok(), read.message());
  return *read;
}

Trace random_trace(std::mt19937_64& random) {
  static const std::string words[] = {"",     "fc1", "a \"quoted\" name", "back\\slash", "line\nbreak",
                                      "\x01", "µ…",  "</script>"};
  Trace trace;
  trace.clock = words[random() % 8];
  trace.utc_ns = static_cast<int64_t>(random() % 2'000'000'000) * 1'000'000'000;
  trace.dropped = random() % 3;
  if (random() % 2 == 0) trace.notes = {words[random() % 8], "second"};
  const uint64_t start = random() % 1'000'000'000'000'000;  // of a machine that is up for 11 days
  for (uint64_t i = random() % 20; i > 0; --i) {
    const auto begin = static_cast<int64_t>(start + random() % 10'000'000'000);
    TraceEvent& event =
        add(trace, static_cast<uint32_t>(random() % 3), words[random() % 8],
            static_cast<TraceKind>(random() % 5), begin, begin + static_cast<int64_t>(random() % 1'000'000));
    event.name = words[random() % 8];
    event.bytes = random() % 5 == 0 ? 0 : random() >> 24;
    if (random() % 2 == 0) event.bucket = static_cast<uint32_t>(random() % 100);
    if (random() % 2 == 0) event.predicted_ns = static_cast<double>(random() % 1'000'000) / 7;
  }
  return trace;
}

}  // namespace

TEST_CASE("trace file: reading gives what was written, to the nanosecond") {
  check_same(reread(one_rank()), one_rank());
  check_same(reread({}), {});
  std::mt19937_64 random(seed());
  for (int i = full_or("traces", 200, 20'000); i > 0; --i) {
    const Trace trace = random_trace(random);
    check_same(reread(trace), trace);
  }
}

TEST_CASE("trace file: is Chrome's form, with ranks as processes and lanes as named threads") {
  const auto all = nlohmann::json::parse(one_rank().json());
  CHECK(all["displayTimeUnit"] == "ns");
  CHECK(all["otherData"]["format"] == "tenon.trace/1");
  const auto& rows = all["traceEvents"];
  REQUIRE(rows.size() == 8);
  CHECK(rows[0]["ph"] == "M");
  CHECK(rows[0]["name"] == "process_name");
  CHECK(rows[0]["args"]["name"] == "rank 0");
  CHECK(rows[2]["name"] == "thread_name");
  CHECK(rows[2]["args"]["name"] == "gradients");
  const auto& bucket = rows[6];
  CHECK(bucket["ph"] == "X");
  CHECK(bucket["cat"] == "collective");
  CHECK(bucket["pid"] == 0);
  CHECK(bucket["tid"] == rows[2]["tid"]);
  CHECK(bucket["ts"] == 0.2);  // microseconds since the first event
  CHECK(bucket["dur"] == 0.25);
  CHECK(bucket["args"]["bucket"] == 0);
  CHECK(bucket["args"]["bytes"] == 4096);
  CHECK(bucket["args"]["predicted_ns"] == 200);
  for (const auto& row : rows) CHECK((row["ph"] == "M" || row["ts"] >= 0));
}

TEST_CASE("trace file: ranks of one host share its clock") {
  const TempFolder folder;
  const std::string a = folder / "a.json", b = folder / "b.json";
  REQUIRE(one_rank().write(a).ok());
  Trace other;
  other.clock = "here";
  other.dropped = 2;
  other.notes = {"a note"};
  add(other, 1, "compute", TraceKind::kernel, 250, 450).name = "late";
  REQUIRE(other.write(b).ok());
  const auto both = Trace::read({a, b});
  REQUIRE_MESSAGE(both.ok(), both.message());
  CHECK(both->clock == "here");
  CHECK(both->lanes.size() == 3);
  CHECK(both->dropped == 2);
  CHECK(both->notes == other.notes);
  REQUIRE(both->events.size() == 6);
  CHECK(both->events[0].begin_ns == 100);
  CHECK(both->events[5].begin_ns == 250);
  CHECK(both->lanes[both->events[5].lane].rank == 1);
  CHECK(reread(*both).events == both->events);
}

TEST_CASE("trace file: ranks of several hosts stand by the time of day, and a note says so") {
  const TempFolder folder;
  const std::string a = folder / "a.json", b = folder / "b.json";
  REQUIRE(one_rank().write(a).ok());  // its clock began 1000 s after the day's
  Trace other;
  other.clock = "there";
  other.utc_ns = 1'000'000'000'400;
  add(other, 1, "compute", TraceKind::kernel, 0, 10);
  REQUIRE(other.write(b).ok());
  const auto both = Trace::read({a, b});
  REQUIRE_MESSAGE(both.ok(), both.message());
  CHECK(both->clock == "utc");
  CHECK(both->events[0].begin_ns == 1'000'000'000'100);
  CHECK(both->events[5].begin_ns == 1'000'000'000'400);
  REQUIRE(both->notes.size() == 1);
  CHECK(both->notes[0].find("2 hosts") != std::string::npos);
}

TEST_CASE("trace file: a rank in two files, and a file that is not there, are named") {
  const TempFolder folder;
  const std::string a = folder / "a.json", b = folder / "b.json";
  REQUIRE(one_rank().write(a).ok());
  REQUIRE(one_rank().write(b).ok());
  const auto twice = Trace::read({a, b});
  CHECK(twice.code() == TN_INVALID);
  CHECK(twice.message().find("rank 0 is in " + a + " and in " + b) != std::string::npos);
  CHECK(Trace::read({a, folder / "none.json"}).code() == TN_NOT_FOUND);
  CHECK(one_rank().write(a + "/below").code() != TN_OK);
}
