// SPDX-License-Identifier: Apache-2.0
// several_test.cpp: the device under test beside others: bytes and points that cross from one plugin to another.
#include "integration/device.hpp"

#include <numeric>

using namespace tenon;
using namespace tenon::test;

namespace {

std::vector<uint32_t> counting(size_t n) {
  std::vector<uint32_t> out(n);
  std::iota(out.begin(), out.end(), 1u);
  return out;
}

// A device of another plugin; none where this build has only one.
Result<Device> other_device(Runtime& runtime) { return runtime.device(other_plugin()); }

}  // namespace

TEST_CASE("several: bytes go to another plugin's device and back") {
  Runtime runtime = open_with_other();
  Device here = target(runtime);
  auto there = other_device(runtime);
  if (there.code() == TN_NOT_FOUND) TENON_SKIP("two plugins", std::string(there.message()));
  Device far_device = must(std::move(there));
  Stream stream = must(here.stream()), far_stream = must(far_device.stream());
  const auto source = counting(300'000);
  const uint64_t bytes = source.size() * sizeof(uint32_t);
  const Buffer one = must(here.allocate(stream, bytes)), two = must(far_device.allocate(far_stream, bytes)),
               three = must(here.allocate(stream, bytes));
  must(stream.upload(one, source));
  must(far_stream.wait(must(stream.record())));
  must(far_stream.copy(two, one));
  must(stream.wait(must(far_stream.record())));
  must(stream.copy(three, two));
  std::vector<uint32_t> out(source.size());
  must(stream.download(out, three));
  must(stream.sync());
  CHECK((out == source));
}

TEST_CASE("several: a device is opened with the options of its own runtime") {
  if (device_under_test().plugin != "cpu") TENON_SKIP("options", "only cpu is asked for one that it checks");
  Runtime first = open();
  const Device device = target(first);
  Runtime wrong = open({}, say_nothing, {{"cpu.threads", "many"}});
  const auto refused = wrong.device("cpu");
  CHECK(refused.code() == TN_INVALID);
  CHECK_HAS(std::string(refused.message()), "option 'threads'");
  must(first.device("cpu"));
  Runtime right = open({}, say_nothing, {{"cpu.threads", "3"}});
  must(right.device("cpu"));
}

TEST_CASE("several: a wait for another plugin's point holds, to and fro") {
  Runtime runtime = open_with_other();
  Device here = target(runtime);
  auto there = other_device(runtime);
  if (there.code() == TN_NOT_FOUND) TENON_SKIP("two plugins", std::string(there.message()));
  Device far_device = must(std::move(there));
  Stream stream = must(here.stream()), far_stream = must(far_device.stream());
  const Buffer buffer = must(here.allocate(stream, 4)), far_buffer = must(far_device.allocate(far_stream, 4));
  for (uint32_t i = 0; i < 20; ++i) {
    CAPTURE(i);
    uint32_t seen = 0;
    must(stream.fill(buffer, i, 4));
    must(far_stream.wait(must(stream.record())));
    must(far_stream.copy(far_buffer, buffer));
    must(stream.wait(must(far_stream.record())));
    must(stream.fill(buffer, 0xFFFF'FFFF, 4));
    must(far_stream.download(std::span(&seen, 1), far_buffer));
    must(far_stream.sync());
    CHECK(seen == i);
  }
  must(stream.sync());
}

TEST_CASE("several: two devices of one plugin exchange bytes, directly or through the host") {
  Runtime runtime = open_with_other();
  Device here = target(runtime);
  const auto infos = must(runtime.devices(device_under_test().plugin));
  if (infos.size() < 2) TENON_SKIP("two devices", device_under_test().label() + " has one device here");
  Device there = must(runtime.device(device_under_test().plugin + ":1"));
  Stream stream = must(here.stream()), far_stream = must(there.stream());
  const auto source = counting(10'000);
  const uint64_t bytes = source.size() * sizeof(uint32_t);
  const Buffer one = must(here.allocate(stream, bytes)), two = must(there.allocate(far_stream, bytes));
  must(stream.upload(one, source));
  must(far_stream.wait(must(stream.record())));
  must(far_stream.copy(two, one));
  std::vector<uint32_t> out(source.size());
  must(far_stream.download(out, two));
  must(far_stream.sync());
  CHECK((out == source));
}
