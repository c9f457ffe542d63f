// SPDX-License-Identifier: Apache-2.0
// mistakes_test.cpp: files that are no traces are refused with their line, their key and a remedy; none does harm.
#include "traces.hpp"

#include "support/full.hpp"
#include "support/seed.hpp"

#include <doctest/doctest.h>

#include <random>

using namespace tenon;
using namespace tenon::test;

namespace {

// What `parse` says to one_rank's file with `part` replaced.
std::string told(const std::string& part, const std::string& other) {
  std::string text = one_rank().json();
  const size_t at = text.find(part);
  REQUIRE_MESSAGE(at != std::string::npos, part);
  const auto read = Trace::parse(text.replace(at, part.size(), other), "run.json");
  CHECK(read.code() == TN_INVALID);
  CHECK(read.message().substr(0, 10) == "run.json: ");
  return read.ok() ? "" : std::string(read.message()).substr(10);
}

bool has(const std::string& text, const std::string& part) {
  CAPTURE(text);
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("trace mistakes: a key or kind that does not exist, with the nearest") {
  CHECK(has(told("\"dur\":", "\"dura\":"), "line 7: an event has no key 'dura' (did you mean 'dur'?)"));
  CHECK(has(told("\"bucket\":0", "\"bukcet\":0"),
            "line 10: args has no key 'bukcet' (did you mean 'bucket'?)"));
  CHECK(has(told("\"cat\":\"kernel\"", "\"cat\":\"kernle\""),
            "line 7: cat 'kernle' (did you mean 'kernel'?) is none of"));
  CHECK(has(told("\"clock\":", "\"clok\":"), "line 2: otherData has no key 'clok' (did you mean 'clock'?)"));
  CHECK(has(told("\"traceEvents\":", "\"events\":"), "the file has no key 'events'"));
}

TEST_CASE("trace mistakes: values that cannot be") {
  CHECK(has(told("\"ts\":0.000", "\"ts\":-1"), "line 7: ts and dur are microseconds from 0"));
  CHECK(has(told("\"dur\":0.400", "\"dur\":1e300"), "line 7: ts and dur"));
  CHECK(has(told("\"dur\":0.400", "\"dur\":\"0.4\""), "line 7: expected a number, found"));
  CHECK(has(told("\"pid\":0", "\"pid\":-3"), "pid is the rank, from 0 to 2^32, not -3"));
  CHECK(has(told("\"bucket\":0", "\"bucket\":5000000000"), "line 10: bucket is 5000000000"));
  CHECK(has(told("\"bytes\":4096", "\"bytes\":-1"), "bytes is -1, below 0"));
  CHECK(has(told("\"predicted_ns\":200", "\"predicted_ns\":-1"), "predicted_ns is below 0"));
  CHECK(has(told("\"dropped\":0", "\"dropped\":-1"), "dropped is a count, not -1"));
  CHECK(has(told("\"utc_ns\":1000000000000", "\"utc_ns\":9000000000000000000"), "which no clock tells"));
}

TEST_CASE("trace mistakes: events without what they need") {
  CHECK(has(told(",\"dur\":0.400", ""), "line 7: the event lacks 'dur'"));
  CHECK(has(told("\"ph\":\"X\"", "\"ph\":\"B\""), "line 7: ph is 'B': only 'X' and 'M' are read"));
  CHECK(has(told("\"ph\":\"M\",", ""), "lacks 'ph'"));
  CHECK(has(told("thread_name", "thread_nome"), "line 5: metadata 'thread_nome'"));
  CHECK(has(told("\"tid\":1,\"ts\"", "\"tid\":9,\"ts\""),
            "line 7: no thread_name tells of pid 0, tid 9: add one"));
  CHECK(has(told("\"tid\":2,\"args\"", "\"tid\":1,\"args\""), "has tid 1 twice"));
}

TEST_CASE("trace mistakes: foreign, newer and cut files") {
  CHECK(has(told("tenon.trace/1", "tenon.trace/2"), "format 'tenon.trace/2' is not 'tenon.trace/1'"));
  CHECK(has(told("\n]}\n", ""), "the end of the file: it was cut off"));
  CHECK(has(told("\n]}\n", "\n]} more"), "expected the end of the file, found 'more'"));
  CHECK(has(
      std::string(Trace::parse(R"({"otherData":{"generator":"tenon.trace"},"traceEvents":[]})").message()),
      "otherData has no format"));
  CHECK(Trace::parse("[\"tenon.trace/1\"]").code() == TN_INVALID);
  for (const char* foreign : {"", "[]", R"({"traceEvents":[]})"})
    CHECK(Trace::parse(foreign, "run.json").message() ==
          "run.json is no trace that Timeline::write or `tenon trace` wrote: open it at ui.perfetto.dev");
}

TEST_CASE("trace mistakes: whatever bytes are changed, reading ends") {
  const std::string text = one_rank().json();
  std::mt19937_64 random(seed());
  int refused = 0;
  const int cases = full_or("changed files", 3'000, 300'000);
  for (int i = 0; i < cases; ++i) {
    std::string changed = text;
    for (uint64_t n = 1 + random() % 3; n > 0; --n) {
      const size_t at = random() % changed.size();
      if (random() % 3 == 0)
        changed.erase(at, random() % 20);
      else
        changed[at] = static_cast<char>(random());
    }
    const auto read = Trace::parse(changed);
    refused += read.ok() ? 0 : 1;
    if (!read.ok()) continue;
    CHECK(Trace::parse(read->json()).ok());  // what is taken can be written
  }
  CHECK(refused > cases / 2);
}
