// SPDX-License-Identifier: Apache-2.0
// trace_test.cpp: the file is JSON, holds each call once with a begin and an end, and says what it dropped.
#include "layered.hpp"
#include "scratch.hpp"

#include <nlohmann/json.hpp>

#include <map>
#include <thread>

using namespace tenon;
using namespace tenon::test;
using nlohmann::json;

namespace {

json parsed(const ScratchFile& file) {
  const json all = json::parse(file.read());
  CHECK(all.contains("traceEvents"));
  return all;
}

// Complete events by name.
std::multimap<std::string, json> events_of(const json& all, const std::string& category = "host") {
  std::multimap<std::string, json> out;
  for (const json& each : all["traceEvents"]) {
    if (each["ph"] == "M") continue;
    REQUIRE(each["ph"] == "X");
    CHECK(each["ts"].get<double>() >= 0);
    CHECK(each["dur"].get<double>() >= 0);
    CHECK(each.contains("pid"));
    CHECK(each.contains("tid"));
    if (each["cat"] == category) out.emplace(each["name"], each);
  }
  return out;
}

}  // namespace

TEST_CASE("trace: each call is one event with its stream, kernel, bytes and code") {
  const ScratchFile file("trace.json");
  {
    Layered on("trace=" + file.path());
    tn_device* device = on.call->open();
    tn_stream* stream = on.call->stream(device, "work \"a\"");
    tn_memory* memory = on.call->alloc(device, 4096);
    tn_kernel* kernel = on.call->add(device, 16, 3, "add3");
    on.call->fill(stream, span_of(memory, 0, 1024), 1.0f);
    on.call->launch(kernel, stream,
                    {span_of(memory, 0, 64), span_of(memory, 64, 64), span_of(memory, 128, 64),
                     span_of(memory, 1024, 64)});
    on.call->sync(stream);
    uint64_t value = 0;
    CHECK(on.top().stream->timestamp(stream, 99, &value, nullptr) == TN_INVALID);
    on.call->destroy(kernel);
    on.call->free(memory);
    on.call->destroy(stream);
    on.call->close(device);
  }
  const json all = parsed(file);
  const auto events = events_of(all);
  CHECK(events.size() == 13);
  REQUIRE(events.count("launch add3") == 1);
  const json launch = events.find("launch add3")->second;
  CHECK(launch["args"]["stream"] == "stream 'work \"a\"'");
  CHECK(launch["args"]["bytes"] == 256);
  REQUIRE(events.count("fill") == 1);
  CHECK(events.find("fill")->second["args"]["on"] == "stream 'work \"a\"'");
  CHECK(events.find("fill")->second["args"]["bytes"] == 1024);
  CHECK(events.find("timestamp")->second["args"]["code"] == "TN_INVALID");
  CHECK_FALSE(events.find("fill")->second["args"].contains("code"));
  CHECK(events.find("alloc")->second["args"]["on"] == "device 'mini:0'");
  CHECK(all["otherData"]["dropped_events"] == 0);
}

TEST_CASE("trace: events of one thread follow each other, and each thread has its own track") {
  const ScratchFile file("threads.json");
  {
    Layered on("trace=" + file.path());
    tn_device* device = on.call->open();
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (int n = 0; n < 50; ++n) on.call->free(on.call->alloc(device, 64));
      });
    }
    for (std::thread& thread : threads) thread.join();
    on.call->close(device);
  }
  std::map<int, double> last;
  std::map<int, int> count;
  const json all = parsed(file);
  for (const json& each : all["traceEvents"]) {
    if (each["ph"] != "X") continue;
    const int thread = each["tid"];
    CHECK(each["ts"].get<double>() >= last[thread]);
    last[thread] = each["ts"].get<double>() + each["dur"].get<double>() - 0.002;  // rounded to ns twice
    ++count[thread];
  }
  REQUIRE(count.size() == 5);
  for (int thread = 2; thread <= 5; ++thread) CHECK(count[thread] == 100);
}

TEST_CASE("trace: a full ring keeps the newest events and states how many it dropped") {
  const ScratchFile file("ring.json");
  std::vector<std::string> said;
  {
    Layered on("trace=" + file.path() + ";events=10");
    tn_device* device = on.call->open();
    for (int i = 0; i < 20; ++i) on.call->free(on.call->alloc(device, static_cast<uint64_t>(i)));
    on.call->close(device);
    CHECK_HAS(on.found(), "dropped 32");
  }
  const json all = parsed(file);
  CHECK(all["otherData"]["dropped_events"] == 32);
  const auto events = events_of(all);
  CHECK(events.size() == 10);
  CHECK(events.count("close") == 1);
  CHECK(events.count("open") == 0);
}

TEST_CASE("trace: with device times there is an interval per copy, fill and launch on its stream's track") {
  for (const bool asynchronous : {false, true}) {
    CAPTURE(asynchronous);
    const ScratchFile file("device.json");
    {
      Layered on("trace=" + file.path() + ";device", {.asynchronous = asynchronous});
      tn_device* device = on.call->open();
      tn_stream* a = on.call->stream(device, "a");
      tn_stream* b = on.call->stream(device, "b");
      tn_memory* memory = on.call->alloc(device, 4096);
      for (int i = 0; i < 5; ++i) on.call->fill(a, span_of(memory, 0, 1024), 1.0f);
      on.call->copy(b, span_of(memory, 1024, 64), span_of(memory, 2048, 64));
      on.call->sync(a);
      on.call->destroy(a);
      on.call->destroy(b);
      on.call->free(memory);
      on.call->close(device);
    }
    const json all = parsed(file);
    const auto intervals = events_of(all, "device");
    CHECK(intervals.count("fill") == 5);
    CHECK(intervals.count("copy") == 1);
    double last = 0;
    for (auto at = intervals.lower_bound("fill"); at != intervals.upper_bound("fill"); ++at) {
      CHECK(at->second["ts"].get<double>() >= last);
      last = at->second["ts"].get<double>();
      CHECK(at->second["args"]["bytes"] == 1024);
    }
    CHECK(intervals.find("copy")->second["tid"] != intervals.find("fill")->second["tid"]);
  }
}

TEST_CASE("trace: finishing writes the file, and an untouched trace is not written twice") {
  const ScratchFile file("once.json");
  Layered on("trace=" + file.path());
  CHECK(parsed(file)["traceEvents"].size() == 1);
  on.call->close(on.call->open());
  CHECK(on.layer->finish().ok());
  CHECK(events_of(parsed(file)).size() == 2);
  file.write("mine");
  CHECK(on.layer->finish().ok());
  CHECK(file.read() == "mine");
}

TEST_CASE("trace: an unknown option is refused") {
  CHECK_HAS(layers::make_layer("trace=x.json;evnts=3").error().message, "does not know 'evnts=3'");
  CHECK_HAS(layers::make_layer("trace=x.json;events=0").error().message, "does not know 'events=0'");
}
