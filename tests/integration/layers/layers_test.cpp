// SPDX-License-Identifier: Apache-2.0
// layers_test.cpp: each layer through the public API, with a real plugin at work.
#include "integration/device.hpp"

#include "support/temp_folder.hpp"

#include <tenon/replay.hpp>

#include <nlohmann/json.hpp>

#include <fstream>
#include <mutex>

using namespace tenon;
using namespace tenon::test;

namespace {

constexpr int64_t count = 1024;
constexpr uint64_t array_bytes = count * sizeof(float);

// Uploads on one stream, adds on another; `waits` is what makes it right.
std::vector<float> add_on_two_streams(Device& device, bool waits = true) {
  Stream upload = must(device.stream({.name = "upload"})), compute = must(device.stream({.name = "compute"}));
  const Kernel kernel = must(device.compile(add3(count)));
  std::vector<float> host(count, 2.0f), out(count);
  Buffer a = must(device.allocate(upload, array_bytes)), b = must(device.allocate(upload, array_bytes));
  Buffer c = must(device.allocate(upload, array_bytes)), d = must(device.allocate(compute, array_bytes));
  must(upload.upload(a, host));
  must(upload.fill(b, 0x3F800000, 4));  // 1.0f
  must(upload.upload(c, host));
  if (!waits) must(upload.sync());  // the mistake is planted for the layer to find, not to be suffered
  if (waits) must(compute.wait(must(upload.record())));
  for (Buffer* each : {&a, &b, &c}) must(each->used_on(compute));
  must(kernel.run(compute, {a, b, c, d}));
  must(compute.download(out, d));
  must(compute.sync());
  return out;
}

// What the trace of add_on_two_streams holds.
nlohmann::json traced(const std::string& file) {
  {
    Runtime runtime = open({"trace=" + file + ";device"});
    Device device = target(runtime);
    CHECK(add_on_two_streams(device) == std::vector<float>(count, 5.0f));
  }
  std::ifstream in(file);
  return nlohmann::json::parse(in);
}

template <class Wanted>
int count_events(const nlohmann::json& all, const Wanted& wanted) {
  int found = 0;
  for (const auto& each : all["traceEvents"]) found += each["ph"] == "X" && wanted(each) ? 1 : 0;
  return found;
}

}  // namespace

TEST_CASE("layers: validate finds nothing in a right program") {
  std::string said;
  {
    Runtime runtime =
        open({"validate"}, [&](LogLevel, std::string_view, std::string_view text) { said += text; });
    Device device = target(runtime);
    CHECK(add_on_two_streams(device) == std::vector<float>(count, 5.0f));
    CHECK(all_reports(runtime) == "");
  }
  CHECK(said == "");
}

TEST_CASE("layers: validate names a missing wait, with streams, kernel and remedy") {
  Runtime runtime = open({"validate"});
  Device device = target(runtime);
  Stream one = must(device.stream({.name = "one"})), two = must(device.stream({.name = "two"}));
  Buffer shared = must(device.allocate(one, array_bytes)),
         other = must(device.allocate(two, 3 * array_bytes));
  const Kernel kernel = must(device.compile(add3(count)));
  must(two.fill(other));
  must(two.sync());
  must(one.fill(must(shared.slice(0, array_bytes))));
  const tn_span a = must(other.slice(0, array_bytes)), b = must(other.slice(array_bytes, array_bytes)),
                d = must(other.slice(2 * array_bytes, array_bytes));
  must(kernel.run(two, {a, b, shared, d}));
  must(one.sync());
  must(two.sync());
  const std::string found = all_reports(runtime);
  CHECK_HAS(found, "hazard: fill #");
  CHECK_HAS(found, " on stream 'one' writes memory #");
  CHECK_HAS(found, "; launch 'add3' #");
  CHECK_HAS(found,
            "and never waited for it: make stream 'two' wait for a value that stream 'one' records after #");
  CHECK(runtime.layer_reports().size() == 1);
}

TEST_CASE("layers: validate names a use of a buffer that went back to the pool") {
  Runtime runtime = open({"validate"});
  Device device = target(runtime);
  Stream stream = must(device.stream({.name = "work"}));
  tn_span dangling{};
  {
    const Buffer buffer = must(device.allocate(stream, array_bytes));
    dangling = buffer;
    must(stream.fill(dangling));
  }
  const Status status = stream.fill(dangling);
  CHECK(status.code() == TN_INVALID);
  CHECK_HAS(
      std::string(status.message()),
      "use after free: dst [0, 4096) of memory #1 names bytes of [0, 4096), which went back to the pool");
  CHECK_HAS(all_reports(runtime), "use after free");
  Stream again = must(device.stream());
  const Buffer next = must(device.allocate(stream, array_bytes));  // the same bytes, in use again
  must(stream.sync());
  must(again.fill(next));
  must(again.sync());
  CHECK(runtime.layer_reports().size() == 1);
}

TEST_CASE("layers: validate names a leak when the device closes") {
  std::mutex mutex;
  std::string said;
  tn_memory* leaked = nullptr;
  tn_device* handle = nullptr;
  {
    Runtime runtime = open({"validate"}, [&](LogLevel, std::string_view, std::string_view text) {
      const std::lock_guard lock(mutex);
      said += std::string(text) + "\n";
    });
    const Device device = target(runtime);
    handle = device.handle();
    REQUIRE(device.plugin().device->alloc(handle, TN_MEMORY_DEVICE, 12345, 0, &leaked, nullptr) == TN_OK);
  }
  CHECK_HAS(said, "leak: memory #1 (12345 bytes, made by call #");
  const std::string name = "device '" + device_under_test().plugin + ":0'";
  CHECK_HAS(said, "on " + name + ") still lives when " + name + " is closed in call #");
  Runtime plain = open({});  // the plugin is the same: what was left over is ended there
  const tn_plugin& plugin = *must(plain.plugin(device_under_test().plugin));
  CHECK(plugin.device->free(leaked, nullptr) == TN_OK);
  CHECK(plugin.device->close(handle, nullptr) == TN_OK);
}

TEST_CASE("layers: trace writes the calls as JSON") {
  const TempFolder folder;
  const auto all = traced(folder / "t.json");
  CHECK(count_events(all, [](const auto& each) { return each["name"] == "launch add3"; }) == 1);
  CHECK(count_events(all, [](const auto& each) { return each["dur"].template get<double>() < 0; }) == 0);
  CHECK(all["otherData"]["dropped_events"] == 0);
}

TEST_CASE("layers: trace writes the device's work, too") {
  {
    Runtime runtime = open();
    Device device = target(runtime);
    Stream stream = must(device.stream());
    const Point point = must(stream.record(Timed::yes));
    must(stream.sync());
    SKIP_IF_UNSUPPORTED(point.timestamp(), "timestamps");
  }
  const TempFolder folder;
  const auto all = traced(folder / "t.json");
  CHECK(count_events(all, [](const auto& each) { return each["cat"] == "device"; }) == 5);
}

namespace {

// Additions on the device under test, recorded in a file and made again by `plugin`.
void replay_additions(Runtime& runtime, const tn_plugin& plugin) {
  const TempFolder folder;
  const std::string file = folder / "run.rec";
  {
    Runtime recorded = open({"record=" + file});
    Device device = target(recorded);
    add_on_two_streams(device);
    CHECK_HAS(all_reports(recorded), "recorded ");
  }
  const ReplayReport report = must(replay(file, plugin));
  CHECK(report.same());
  CHECK(report.downloads == 1);
  CHECK(report.skipped == 0);
  CHECK_HAS(report.recorded_on, device_under_test().plugin + " ");
  CHECK(all_reports(runtime) == "");
}

}  // namespace

TEST_CASE("layers: what was recorded on a plugin replays there to the same bytes") {
  Runtime runtime = open({"validate"});
  replay_additions(runtime, *must(runtime.plugin(device_under_test().plugin)));
}

TEST_CASE("layers: what was recorded on one plugin replays on another to the same bytes") {
  Runtime runtime = open_with_other({"validate"});
  const auto plugin = runtime.plugin(other_plugin());
  if (!plugin.ok()) TENON_SKIP("two plugins", std::string(plugin.message()));
  replay_additions(runtime, **plugin);
}

TEST_CASE("layers: injected failures come out of the public API as what they are") {
  {
    Runtime runtime = open({"fault=alloc:*:no_memory"});
    Device device = target(runtime);
    Stream stream = must(device.stream());
    CHECK(device.allocate(stream, 4096).code() == TN_NO_MEMORY);
  }
  Runtime runtime = open({"validate", "fault=launch:1:device_lost"});
  Device device = target(runtime);
  Stream stream = must(device.stream({.name = "work"}));
  Buffer buffer = must(device.allocate(stream, 4 * array_bytes));
  const Kernel kernel = must(device.compile(add3(count)));
  const auto part = [&](uint64_t i) { return must(buffer.slice(i * array_bytes, array_bytes)); };
  CHECK(kernel.run(stream, {part(0), part(1), part(2), part(3)}).code() == TN_DEVICE_LOST);
  CHECK(stream.fill(buffer).code() == TN_DEVICE_LOST);
  CHECK(device.stream().code() == TN_DEVICE_LOST);
  CHECK_HAS(all_reports(runtime), "fault rule 'launch:1:device_lost' fired 1 times");
}

TEST_CASE("layers: an unknown layer fails the opening, with the nearest name") {
  RuntimeOptions options;
  options.layers = {"validat"};
  const auto runtime = Runtime::open(std::move(options));
  REQUIRE_FALSE(runtime.ok());
  CHECK_HAS(runtime.error().message, "no layer is called 'validat' (did you mean 'validate'?)");
}
